import java.nio.charset.StandardCharsets.UTF_8
import java.util.Base64

import scala.collection.mutable

import org.apache.spark.SparkThrowable
import org.apache.spark.sql.{functions, DataFrame}
import org.apache.spark.sql.connect.SparkSession

/** Runs statements in a session of the Scala client, and prints the rows or what the client shows of each error.
  *
  * A statement can be a query whose rows a call writes to a table.
  */
object Errors {
  private val sessions = mutable.Map[String, SparkSession]()

  def main(arguments: Array[String]): Unit = {
    for (line <- scala.io.Source.stdin.getLines()) {
      val remote +: fields = line.split("\t", -1).toSeq
      val spark = sessions.getOrElseUpdate(remote, SparkSession.builder().remote(remote).create())
      println("RESULT\t" + run(spark, fields.map(decode)).map(encode).mkString("\t"))
    }
    System.exit(0)
  }

  private def run(spark: SparkSession, statement: Seq[String]): Seq[String] =
    try {
      val frame = spark.sql(statement.head)
      statement.tail match {
        case Seq(call, table, condition) =>
          write(frame, call, table, condition)
          Seq("", "", "", "")
        case _ =>
          val rows = frame.collect().map(_.json).mkString("[", ",", "]")
          Seq("", "", "", "", frame.schema.json, rows)
      }
    } catch {
      case error: Throwable =>
        val known = Some(error).collect { case each: SparkThrowable => each }
        Seq(
          error.getClass.getSimpleName,
          error.getMessage,
          known.map(_.getCondition).orNull,
          known.map(_.getSqlState).orNull)
    }

  private def write(frame: DataFrame, call: String, name: String, condition: String): Unit =
    call match {
      case "write.insertInto(name)" => frame.write.insertInto(name)
      case "write.insertInto(name, overwrite=True)" => frame.write.mode("overwrite").insertInto(name)
      case "write.mode(\"append\").saveAsTable(name)" => frame.write.mode("append").saveAsTable(name)
      case "write.mode(\"overwrite\").saveAsTable(name)" => frame.write.mode("overwrite").saveAsTable(name)
      case "writeTo(name).append()" => frame.writeTo(name).append()
      case "writeTo(name).overwritePartitions()" => frame.writeTo(name).overwritePartitions()
      case "writeTo(name).overwrite(condition)" => frame.writeTo(name).overwrite(functions.expr(condition))
      case "writeTo(name).createOrReplace()" => frame.writeTo(name).createOrReplace()
      case "writeTo(name).replace()" => frame.writeTo(name).replace()
      case merge if merge.startsWith("mergeInto") =>
        frame.mergeInto(name, functions.expr(condition)).whenMatched().updateAll().merge()
    }

  private def encode(text: String): String =
    "." + Base64.getEncoder.encodeToString(String.valueOf(text).getBytes(UTF_8))

  private def decode(text: String): String = new String(Base64.getDecoder.decode(text), UTF_8)
}
