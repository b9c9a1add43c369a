//! Runs a statement in a session of the Rust client, and prints the result or the error.

use std::env;

use spark_connect_rs::SparkSessionBuilder;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let remote = env::args().nth(1).expect("the connection string");
    let statement = env::args().nth(2).expect("the statement");
    match run(&remote, &statement).await {
        Ok(value) => println!("RESULT\t{value}"),
        Err(error) => println!("ERROR\t{error:?}"),
    }
}

async fn run(remote: &str, statement: &str) -> Result<String, Box<dyn std::error::Error>> {
    let spark = SparkSessionBuilder::remote(remote).build().await?;
    let batch = spark.sql(statement).await?.collect().await?;
    Ok(format!("{:?}", batch.column(0)))
}
