import java.io.BufferedReader;
import java.io.FileOutputStream;
import java.io.FileReader;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.streaming.DataStreamWriter;
import org.apache.spark.sql.streaming.StreamingQuery;
import org.apache.spark.sql.streaming.Trigger;

/** A job that knows nothing of Tidemark; it does what the file says that PLAIN_JOB_INPUT names, as plain_job.py. Its
 * answers go to stdout, or into what PLAIN_JOB_OUTPUT names. */
public final class PlainJob {
    private static SparkSession spark;
    private static final List<StreamingQuery> QUERIES = new ArrayList<>();

    public static void main(String[] arguments) throws Exception {
        spark = SparkSession.builder().getOrCreate();
        String answers = System.getenv("PLAIN_JOB_OUTPUT");
        PrintStream out = answers == null ? System.out : new PrintStream(new FileOutputStream(answers));
        BufferedReader lines = new BufferedReader(new FileReader(System.getenv("PLAIN_JOB_INPUT")));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            long began = System.nanoTime();
            String said = "ok";
            try {
                act(line.split(" "));
            } catch (Throwable problem) {
                said = "failed " + String.valueOf(problem).replace('\n', ' ');
            }
            out.println("> " + said + " " + (System.nanoTime() - began) / 1e9);
        }
    }

    private static void act(String[] words) throws Exception {
        switch (words[0]) {
            case "conf":
                spark.conf().set(words[1], words[2]);
                break;
            case "session":
                spark = spark.newSession();
                break;
            case "context":
                spark.stop();
                SparkSession.clearActiveSession();
                SparkSession.clearDefaultSession();
                SparkSession.Builder builder = SparkSession.builder();
                for (int i = 1; i < words.length; i += 2) {
                    builder = builder.config(words[i], words[i + 1]);
                }
                spark = builder.getOrCreate();
                break;
            case "run":
                written(words).trigger(Trigger.AvailableNow()).start().awaitTermination();
                break;
            case "start":
                QUERIES.add(written(words).start());
                break;
            case "process":
                for (StreamingQuery query : QUERIES) {
                    query.processAllAvailable();
                }
                break;
            case "stop":
                for (StreamingQuery query : QUERIES) {
                    query.stop();
                }
                QUERIES.clear();
                break;
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    private static DataStreamWriter<Row> written(String[] words) {
        String name = words[1];
        DataStreamWriter<Row> writer = result(words[2], words[3]).writeStream().format("json")
                .option("path", words[4]).option("checkpointLocation", words[5]).outputMode("append");
        return name.equals("-") ? writer : writer.queryName(name);
    }

    private static Dataset<Row> result(String kind, String folder) {
        Dataset<Row> clicks = rows(folder + "/clicks").withWatermark("ts", "10 seconds");
        Column ts = functions.col("ts");
        switch (kind) {
            case "tumbling":
                return clicks.groupBy(functions.window(ts, "10 seconds")).count().select("window.start", "count");
            case "session":
                return clicks.groupBy(functions.session_window(ts, "5 seconds"), functions.col("user")).count()
                        .select("session_window.start", "user", "count");
            case "deduplication":
                return clicks.dropDuplicates(new String[] {"id", "ts"}).select("id");
            default:
                Dataset<Row> views = rows(folder + "/views").toDF("seen", "who", "view")
                        .withWatermark("seen", "10 seconds");
                return clicks.join(views, functions.expr(
                        "id = view AND ts BETWEEN seen - INTERVAL 1 HOUR AND seen + INTERVAL 1 HOUR")).select("id");
        }
    }

    private static Dataset<Row> rows(String folder) {
        return spark.readStream().schema("ts timestamp, user string, id long")
                .option("maxFilesPerTrigger", 1).json(folder);
    }
}
