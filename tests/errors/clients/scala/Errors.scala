import java.nio.charset.StandardCharsets.UTF_8
import java.util.Base64

import scala.collection.mutable

import org.apache.spark.SparkThrowable
import org.apache.spark.sql.connect.SparkSession

/** Runs statements in a session of the Scala client, and prints what the client shows of each error. */
object Errors {
  private val sessions = mutable.Map[String, SparkSession]()

  def main(arguments: Array[String]): Unit = {
    for (line <- scala.io.Source.stdin.getLines()) {
      val Array(remote, statement) = line.split("\t")
      val spark = sessions.getOrElseUpdate(remote, SparkSession.builder().remote(remote).create())
      println("RESULT\t" + run(spark, decode(statement)).map(encode).mkString("\t"))
    }
    System.exit(0)
  }

  private def run(spark: SparkSession, statement: String): Seq[String] =
    try {
      spark.sql(statement).collect()
      Seq("", "", "", "")
    } catch {
      case error: Throwable =>
        val known = Some(error).collect { case each: SparkThrowable => each }
        Seq(
          error.getClass.getSimpleName,
          error.getMessage,
          known.map(_.getCondition).orNull,
          known.map(_.getSqlState).orNull)
    }

  private def encode(text: String): String =
    "." + Base64.getEncoder.encodeToString(String.valueOf(text).getBytes(UTF_8))

  private def decode(text: String): String = new String(Base64.getDecoder.decode(text), UTF_8)
}
