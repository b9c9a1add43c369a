// Runs statements in a session of the Go client, and prints what the client shows of each error.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"

	"github.com/apache/spark-connect-go/v35/spark/sparkerrors"
	"github.com/apache/spark-connect-go/v35/spark/sql"
)

func main() {
	ctx := context.Background()
	out := json.NewEncoder(os.Stdout)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var line struct{ Remote, Statement string }
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			panic(err)
		}
		_ = out.Encode(run(ctx, session(ctx, line.Remote), line.Statement))
	}
}

var sessions = map[string]sql.SparkSession{}

func session(ctx context.Context, remote string) sql.SparkSession {
	if sessions[remote] == nil {
		spark, err := sql.NewSessionBuilder().Remote(remote).Build(ctx)
		if err != nil {
			panic(err)
		}
		sessions[remote] = spark
	}
	return sessions[remote]
}

func run(ctx context.Context, spark sql.SparkSession, statement string) map[string]string {
	df, err := spark.Sql(ctx, statement)
	if err == nil {
		_, err = df.Collect(ctx)
	}
	if err == nil {
		return map[string]string{}
	}
	var known *sparkerrors.SparkError
	if errors.As(err, &known) {
		return map[string]string{"text": known.Message, "condition": known.ErrorClass, "sqlState": known.SqlState}
	}
	return map[string]string{"text": err.Error()}
}
