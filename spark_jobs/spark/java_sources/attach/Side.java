package tidemark.attach;

import java.io.File;
import java.io.IOException;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.security.SecureRandom;
import java.util.Arrays;
import java.util.Base64;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Function;
import java.util.function.Predicate;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.streaming.StreamingQueryListener;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import py4j.ClientServer;

/**
 * The side process: Python beside the driver's JVM, attached to its context by Py4J.
 *
 * <p>The gateway is made as Spark makes its own for PySpark: loopback, a free port, a random secret, which the child
 * reads from its stdin. Whatever goes wrong here is logged in a line, and the query runs as it is.
 */
public final class Side {
    static final Logger LOG = LoggerFactory.getLogger("tidemark.spark");
    private static final String PYTHON = "spark.tidemark.python";
    private static final String TIMEOUT = "spark.tidemark.start.timeout";
    private static final String MODULE = "tidemark.spark_jobs.attach.side";
    /** Seconds that reports get at the end, and that the process gets to end by itself. */
    private static final long LAST_REPORTS_S = 10, END_S = 5;

    private final SparkContext context;
    private final ClientServer gateway;
    private final Process process;
    private final CountDownLatch settled = new CountDownLatch(1);
    private final long limitNanos;
    private final long began = System.nanoTime();
    private volatile Function<Object, Object> planner;
    private volatile String ended;
    private final Map<QueuedListener, SparkSession> listeners = new ConcurrentHashMap<>();

    Side(SparkContext context) throws Exception {
        this.context = context;
        SparkConf conf = context.conf();
        this.limitNanos = TimeUnit.MILLISECONDS.toNanos(limitMs(conf));
        byte[] random = new byte[32];
        new SecureRandom().nextBytes(random);
        String secret = Base64.getEncoder().encodeToString(random);
        this.gateway = Calls.within(this.limitNanos, "gateway", () -> new ClientServer.ClientServerBuilder(this)
                .authToken(secret).javaPort(0).javaAddress(InetAddress.getLoopbackAddress()).build());
        try {
            this.process = started(conf);
            // Not in the environment, which other processes of the user can read.
            String hello = this.gateway.getJavaServer().getListeningPort() + " " + secret + "\n";
            this.process.getOutputStream().write(hello.getBytes(StandardCharsets.US_ASCII));
            this.process.getOutputStream().flush();
        } catch (IOException problem) {
            this.gateway.shutdown();
            throw problem;
        }
        this.process.onExit().thenAccept(gone -> this.lost("has ended with " + gone.exitValue()));
        LOG.info("tidemark: side process {} started", this.process.pid());
    }

    private static Process started(SparkConf conf) throws IOException {
        ProcessBuilder builder = new ProcessBuilder(python(conf), "-m", MODULE);
        Map<String, String> environment = builder.environment();
        // Of a driver in Python, or of a client of Spark Connect: the side is neither.
        environment.keySet().removeIf(name -> name.startsWith("PYSPARK_GATEWAY_"));
        environment.keySet().removeAll(
                Arrays.asList("SPARK_REMOTE", "SPARK_LOCAL_REMOTE", "SPARK_CONNECT_MODE_ENABLED", "SPARK_API_MODE"));
        // PySpark of the JVM's version comes first, and the job's working folder is no place for modules.
        String own = PythonUtils.sparkPythonPath();
        String more = environment.getOrDefault("PYTHONPATH", "");
        environment.put("PYTHONPATH", own.isEmpty() || more.isEmpty() ? own + more : own + File.pathSeparator + more);
        environment.put("PYTHONSAFEPATH", "1");
        builder.redirectError(ProcessBuilder.Redirect.INHERIT);
        builder.redirectOutput(ProcessBuilder.Redirect.DISCARD); // stdout is the job's; stdin ends with the JVM
        return builder.start();
    }

    private static String python(SparkConf conf) {
        for (String found : Arrays.asList(
                conf.get(PYTHON, ""), conf.get("spark.pyspark.driver.python", ""), conf.get("spark.pyspark.python", ""),
                String.valueOf(System.getenv("PYSPARK_DRIVER_PYTHON")), String.valueOf(System.getenv("PYSPARK_PYTHON")))) {
            if (!found.isEmpty() && !found.equals("null")) {
                return found;
            }
        }
        return "python3";
    }

    /** Returns how long a query waits at most; what is no such time, or too short for any answer, is left out. */
    private static long limitMs(SparkConf conf) {
        long least = 1_000;
        try {
            long found = conf.getTimeAsMs(TIMEOUT, "20s");
            if (found >= least) {
                return found;
            }
        } catch (RuntimeException unreadable) {
            // as below
        }
        LOG.warn("tidemark: {} is left out: {} is no time of a second or more, such as 20s", TIMEOUT, conf.get(TIMEOUT));
        return 20 * least;
    }

    // -- what the side process calls ------------------------------------------------------------------------------

    /** Returns the context to attach to. */
    public SparkContext context() {
        return this.context;
    }

    /** Tells a listener of the side process of the queries of a session. */
    public void listen(SparkSession session, StreamingQueryListener listener) {
        QueuedListener queued = new QueuedListener(listener, this);
        this.listeners.put(queued, session);
        session.streams().addListener(queued);
    }

    /** Tells a session's listener nothing any more. */
    public void forget(SparkSession session) {
        this.stopListening(session::equals);
    }

    /** Takes what answers from now on. */
    public void ready(Function<Object, Object> planner) {
        this.planner = planner;
        this.settled.countDown();
        LOG.info("tidemark: side process ready after {} ms", (System.nanoTime() - this.began) / 1_000_000);
    }

    // -- what the driver asks -------------------------------------------------------------------------------------

    /** Returns why it is not asked any more; null while it is. */
    String ended() {
        return this.ended;
    }

    long limitNanos() {
        return this.limitNanos;
    }

    /** Returns until when a query that starts now waits: for one that does not come up, all queries together once. */
    long deadline() {
        return (this.planner == null ? this.began : System.nanoTime()) + this.limitNanos;
    }

    /**
     * Returns what the side process answers.
     *
     * @throws Exception when there is no answer in time, whose message says why
     */
    Object ask(long until, Object... request) throws Exception {
        long patience = until - System.nanoTime();
        boolean hadTime = this.planner != null && patience > this.limitNanos / 2;
        try {
            return Calls.within(patience, "ask", () -> {
                this.settled.await();
                return this.planner.apply(Arrays.asList(request));
            });
        } catch (TimeoutException late) {
            String why = "has not answered within " + TimeUnit.NANOSECONDS.toMillis(this.limitNanos) + " ms";
            if (hadTime) { // else it was coming up, or was asked with little time left
                this.kill(why);
            }
            throw new IllegalStateException("the side process " + why);
        } catch (ExecutionException failed) {
            throw new IllegalStateException("the side process " + (this.ended == null ? "fails" : this.ended), failed);
        }
    }

    // -- its end --------------------------------------------------------------------------------------------------

    /** Ends a process that hangs: nothing is to wait for it again. */
    void kill(String why) {
        this.lost(why + " and is ended");
        this.process.destroyForcibly();
    }

    private synchronized void lost(String why) {
        if (this.ended != null) {
            return;
        }
        this.ended = why;
        this.stopListening(session -> true);
        this.settled.countDown();
        LOG.warn("tidemark: the side process {}; running queries go on without it", why);
        Calls.inDaemon("gateway", this.gateway::shutdown);
    }

    private void stopListening(Predicate<SparkSession> of) {
        this.listeners.forEach((listener, session) -> {
            if (of.test(session)) {
                session.streams().removeListener(listener);
                listener.stop();
                this.listeners.remove(listener);
            }
        });
    }

    /** Lets the last reports go out and ends the process. */
    void close() {
        if (this.ended != null) {
            return;
        }
        try {
            if (this.planner != null) {
                Calls.within(TimeUnit.SECONDS.toNanos(LAST_REPORTS_S), "end", () -> this.planner.apply("end"));
            }
        } catch (Exception problem) {
            LOG.warn("tidemark: some reports may be lost: {}", problem.toString());
        }
        this.ended = "is closed";
        this.settled.countDown();
        this.stopListening(session -> true);
        try {
            this.process.getOutputStream().close(); // its stdin: it ends by itself
            if (!this.process.waitFor(END_S, TimeUnit.SECONDS)) {
                this.process.destroyForcibly();
            }
        } catch (IOException | InterruptedException problem) {
            this.process.destroyForcibly();
        }
        this.gateway.shutdown();
    }
}
