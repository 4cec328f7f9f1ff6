package tidemark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.util.Collections;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.TimeUnit;
import java.util.function.BiFunction;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import org.apache.spark.sql.streaming.DataStreamReader;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The control stream: a streaming source whose offset carries the required watermark, and whose only row is that.
 *
 * <p>The offset is <code>{"source": id, "watermark_ms": ..., "partitions": {name: base_us}}</code>. The id is made with a
 * checkpoint and stays in it: two queries of one plan have two sources of one name, and the driver distinguishes them by
 * it. Spark writes the offset into the checkpoint before the batch runs, so a replayed batch moves the watermark exactly
 * as the first try did, and a driver that starts again finds in it how far each partition had come. When the driver has
 * nothing new, or does not answer, the offset stays as it is: then no batch is run for it, and the plan's ceiling alone
 * moves the watermark.
 */
public final class ControlSource implements TableProvider {
    private static final String STREAM = "stream";
    private static final StructType SCHEMA = new StructType().add("watermark_ms", "long");
    /** What answers the sources of a stream, by its name. */
    private static final ConcurrentHashMap ANSWERS = new ConcurrentHashMap();

    public StructType inferSchema(CaseInsensitiveStringMap options) {
        return SCHEMA;
    }

    public Table getTable(StructType schema, Transform[] partitioning, Map properties) {
        return new ControlTable((String) new CaseInsensitiveStringMap(properties).get(STREAM));
    }

    /** Makes control streams in the driver. */
    public static final class Maker {
        private final String stream;

        /**
         * @param stream name under which the driver knows the stream
         * @param answer returns the offset, as JSON, for the stream and the offset before; null for no news
         */
        public Maker(String stream, BiFunction answer) {
            this.stream = stream;
            ANSWERS.put(stream, answer);
        }

        /** Returns the stream, by a reader that has its other options: Spark looks for a source by the thread's loader. */
        public Object load(DataStreamReader reader) {
            Thread thread = Thread.currentThread();
            ClassLoader before = thread.getContextClassLoader();
            thread.setContextClassLoader(ControlSource.class.getClassLoader());
            try {
                return reader.format(ControlSource.class.getName()).option(STREAM, this.stream).load();
            } finally {
                thread.setContextClassLoader(before);
            }
        }
    }

    /** One control stream in a plan. */
    private static final class ControlTable implements SupportsRead, ScanBuilder, Scan {
        private final String stream;

        ControlTable(String stream) {
            this.stream = stream;
        }

        public String name() {
            return "tidemark_control";
        }

        public StructType schema() {
            return SCHEMA;
        }

        public Set capabilities() {
            return Collections.singleton(TableCapability.MICRO_BATCH_READ);
        }

        public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
            return this;
        }

        public Scan build() {
            return this;
        }

        public StructType readSchema() {
            return SCHEMA;
        }

        public String description() {
            return this.name();
        }

        public MicroBatchStream toMicroBatchStream(String checkpoint) {
            return new ControlStream(this.stream, (BiFunction) ANSWERS.get(this.stream));
        }
    }

    /** Asks the driver for the watermark whenever Spark plans a batch. Never stalls, and never ends a query. */
    private static final class ControlStream implements MicroBatchStream, SupportsTriggerAvailableNow, ThreadFactory {
        /** How long a batch waits for an answer: at first, and after a question that got none. */
        private static final long PATIENCE_MS = 2000L, IMPATIENCE_MS = 50L;
        private static final Logger LOG = LoggerFactory.getLogger("tidemark.spark");

        private final String stream;
        private final BiFunction answer;
        private final ExecutorService thread = Executors.newSingleThreadExecutor(this);
        private long patience = PATIENCE_MS;
        /** The last question. */
        private Future asked;

        ControlStream(String stream, BiFunction answer) {
            this.stream = stream;
            this.answer = answer;
        }

        public Thread newThread(Runnable work) {
            Thread made = new Thread(work, "tidemark-control");
            made.setDaemon(true);
            return made;
        }

        /** Returns the offset of a query that has no watermark yet, with an id of its own. */
        public Offset initialOffset() {
            String id = UUID.randomUUID().toString().replace("-", "");
            return new ControlOffset("{\"source\": \"" + id + "\", \"watermark_ms\": null, \"partitions\": {}}");
        }

        public Offset deserializeOffset(String json) {
            return new ControlOffset(json);
        }

        public Offset latestOffset() {
            throw new UnsupportedOperationException("Spark asks with the offset before");
        }

        public Offset latestOffset(Offset start, ReadLimit limit) {
            if (!parsed(start.json()).has("watermark_ms")) {
                throw new IllegalStateException(
                        "tidemark: the checkpoint holds the offset of another source here, " + start.json() + ": it was "
                        + "written by a plan with other inputs or without a ceiling; the query needs a new checkpoint");
            }
            String end = this.ask(start.json());
            return end == null ? start : new ControlOffset(end);
        }

        private String ask(final String start) {
            try {
                if (this.asked != null && !this.asked.isDone()) {
                    // The driver is asked one question at a time, and a late answer is none to the next one.
                    this.asked.get(this.patience, TimeUnit.MILLISECONDS);
                }
                final BiFunction answer = this.answer;
                final String stream = this.stream;
                this.asked = this.thread.submit(new Callable() {
                    public Object call() {
                        return answer.apply(stream, start);
                    }
                });
                String end = (String) this.asked.get(this.patience, TimeUnit.MILLISECONDS);
                this.patience = PATIENCE_MS;
                return end;
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
                return null;
            } catch (Exception error) {
                if (this.patience != IMPATIENCE_MS) {
                    LOG.warn("no control of {}, the ceiling holds: {}", this.stream, error.toString());
                }
                this.patience = IMPATIENCE_MS;
                return null;
            }
        }

        private static JsonNode parsed(String json) {
            try {
                return new ObjectMapper().readTree(json);
            } catch (IOException error) {
                throw new IllegalStateException("tidemark: no offset of a control stream: " + json, error);
            }
        }

        /** Does nothing: the control follows the batches of the data, and ends with them. */
        public void prepareForTriggerAvailableNow() {}

        public InputPartition[] planInputPartitions(Offset start, Offset end) {
            JsonNode watermark = parsed(end.json()).get("watermark_ms");
            return watermark.isNull()
                    ? new InputPartition[0]
                    : new InputPartition[] {new Row(watermark.longValue())};
        }

        public PartitionReaderFactory createReaderFactory() {
            return new Reading();
        }

        /** Does nothing: the offset is all there is. */
        public void commit(Offset end) {}

        public void stop() {
            this.thread.shutdownNow();
        }
    }

    /** An offset, as JSON. */
    private static final class ControlOffset extends Offset {
        private final String json;

        ControlOffset(String json) {
            this.json = json;
        }

        public String json() {
            return this.json;
        }
    }

    /** The row of a batch; executors read it. */
    public static final class Row implements InputPartition {
        private final long watermark;

        public Row(long watermark) {
            this.watermark = watermark;
        }
    }

    /** Reads the row of a batch, in an executor. */
    public static final class Reading implements PartitionReaderFactory {
        public PartitionReader createReader(InputPartition partition) {
            return new RowReader(((Row) partition).watermark);
        }
    }

    /** Returns one row. */
    public static final class RowReader implements PartitionReader {
        private final InternalRow row;
        private boolean read;

        public RowReader(long watermark) {
            this.row = new GenericInternalRow(new Object[] {Long.valueOf(watermark)});
        }

        public boolean next() {
            boolean first = !this.read;
            this.read = true;
            return first;
        }

        public Object get() {
            return this.row;
        }

        public void close() {}
    }
}
