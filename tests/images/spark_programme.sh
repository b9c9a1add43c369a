# Runs in a container of lodge-spark: a server without executors, then with one. It prints one line per step.
set -u
export SPARK_CONNECT_AUTHENTICATE_TOKEN=secret

wait_for() { # a description, and a command
    local what=$1 end=$((SECONDS + 200))
    shift
    until "$@" >/tmp/last-try 2>&1; do
        if ((SECONDS > end)); then
            echo "Not within 200 s: $what"
            tail -n 30 /tmp/last-try /tmp/*.log
            exit 1
        fi
        sleep 0.2
    done
    echo "$what"
}

java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xmx128m -cp "$SPARK_HOME/jars/*" org.apache.spark.deploy.master.Master \
    --host 127.0.0.1 --port 7077 --webui-port 8080 >/tmp/master.log 2>&1 &
wait_for "master started" grep -q "I have been elected leader" /tmp/master.log

tini -s -- lodge-spark server --properties-file /mnt/spark.conf >/tmp/server.log 2>&1 &
server=$!
wait_for "server started" grep -q "Spark Connect server started" /tmp/server.log
lodge-spark-probe --timeout 20 && echo "probe succeeds without executors"
SPARK_CONNECT_AUTHENTICATE_TOKEN=wrong lodge-spark-probe || echo "probe fails with a wrong token"
lodge-spark-probe --address 127.0.0.1:1 || echo "probe fails without a server"
lodge-spark-probe --statement 'SELECT missing' || echo "probe fails if the statement fails"
TIMEFORMAT="probe seconds of CPU: %U %S"
time lodge-spark-probe
TIMEFORMAT="client seconds of CPU: %U %S"
time python -c "import pyspark.sql.connect.session"

export SPARK_DRIVER_URL=spark://CoarseGrainedScheduler@127.0.0.1:7078 SPARK_APPLICATION_ID=app SPARK_RESOURCE_PROFILE_ID=0
export SPARK_EXECUTOR_ID=1 SPARK_EXECUTOR_CORES=1 SPARK_EXECUTOR_MEMORY=512m
export SPARK_EXECUTOR_POD_IP=127.0.0.1 SPARK_EXECUTOR_POD_NAME=executor-1
export SPARK_JAVA_OPT_0=-Dspark.decommission.enabled=true SPARK_JAVA_OPT_1=-Dtest.words="two words"
export SPARK_JAVA_OPT_2=--add-opens=java.base/java.nio=ALL-UNNAMED SPARK_JAVA_OPT_3=-XX:TieredStopAtLevel=1
export SPARK_JAVA_OPT_4=-XX:+UseSerialGC
tini -s -- lodge-spark executor >/tmp/executor.log 2>&1 &
executor=$!
wait_for "executor runs a task" lodge-spark-probe --statement 'SELECT 1' --timeout 20

wait_for "executor is decommissioned" /opt/decom.sh
wait $executor
kill $server && wait $server
echo "server ended with $?"
