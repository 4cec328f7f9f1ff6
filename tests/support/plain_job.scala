// A job in spark-shell that knows nothing of Tidemark; it does what the file says that PLAIN_JOB_INPUT names, as
// plain_job.py.
import org.apache.spark.sql.{DataFrame, Row}
import org.apache.spark.sql.functions._
import org.apache.spark.sql.streaming.{DataStreamWriter, StreamingQuery, Trigger}

def rows(folder: String): DataFrame =
  spark.readStream.schema("ts timestamp, user string, id long").option("maxFilesPerTrigger", 1).json(folder)

def result(kind: String, folder: String): DataFrame = {
  val clicks = rows(s"$folder/clicks").withWatermark("ts", "10 seconds")
  kind match {
    case "tumbling" => clicks.groupBy(window(col("ts"), "10 seconds")).count().select("window.start", "count")
    case "session" =>
      clicks.groupBy(session_window(col("ts"), "5 seconds"), col("user")).count()
        .select("session_window.start", "user", "count")
    case "deduplication" => clicks.dropDuplicates("id", "ts").select("id")
    case "join" =>
      val views = rows(s"$folder/views").toDF("seen", "who", "view").withWatermark("seen", "10 seconds")
      val near = "id = view AND ts BETWEEN seen - INTERVAL 1 HOUR AND seen + INTERVAL 1 HOUR"
      clicks.join(views, expr(near)).select("id")
  }
}

def written(words: Array[String]): DataStreamWriter[Row] = {
  val Array(_, name, kind, folder, out, checkpoint) = words
  result(kind, folder).writeStream.format("json").outputMode("append").queryName(name)
    .option("path", out).option("checkpointLocation", checkpoint)
}

var queries = List[StreamingQuery]()

def act(words: Array[String]): Unit = words(0) match {
  case "conf" => spark.conf.set(words(1), words(2))
  case "run" => written(words).trigger(Trigger.AvailableNow()).start().awaitTermination()
  case "start" => queries ::= written(words).start()
  case "process" => queries.foreach(_.processAllAvailable())
  case "stop" =>
    queries.foreach(_.stop())
    queries = Nil
}

scala.io.Source.fromFile(System.getenv("PLAIN_JOB_INPUT")).getLines().foreach { line =>
  val began = System.nanoTime()
  val said = try { act(line.split(" ")); "ok" } catch { case error: Throwable => "failed " + error }
  println(s"> ${said.replace('\n', ' ')} ${(System.nanoTime() - began) / 1e9}")
}
System.exit(0)
