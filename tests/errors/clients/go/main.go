// Runs statements in a session of the Go client, and prints the rows or what the client shows of each error.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"

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

func run(ctx context.Context, spark sql.SparkSession, statement string) map[string]any {
	columns, rows, err := answer(ctx, spark, statement)
	if err == nil {
		return map[string]any{"columns": columns, "rows": rows}
	}
	var known *sparkerrors.SparkError
	if errors.As(err, &known) {
		return map[string]any{"text": known.Message, "condition": known.ErrorClass, "sqlState": known.SqlState}
	}
	return map[string]any{"text": err.Error()}
}

// Returns the names and types of the columns, and the values of each row.
func answer(ctx context.Context, spark sql.SparkSession, statement string) ([][2]string, [][]any, error) {
	df, err := spark.Sql(ctx, statement)
	if err != nil {
		return nil, nil, err
	}
	collected, err := df.Collect(ctx)
	if err != nil {
		return nil, nil, err
	}
	schema, err := df.Schema(ctx)
	if err != nil {
		return nil, nil, err
	}
	columns, rows := [][2]string{}, [][]any{}
	for _, field := range schema.Fields {
		columns = append(columns, [2]string{field.Name, strings.ToLower(field.DataType.TypeName())})
	}
	for _, row := range collected {
		rows = append(rows, row.Values())
	}
	return columns, rows, nil
}
