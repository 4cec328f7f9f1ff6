package tidemark.attach;

import java.util.concurrent.TimeUnit;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.apache.spark.util.ShutdownHookManager;
import scala.runtime.BoxedUnit;

/** The side process of the context, of which a JVM has one at a time. */
final class Sides {
    private static final String ENABLED = "spark.tidemark.enabled";
    private static final String CONTROLLER = "spark.tidemark.controller.url";
    /** One that has ended is started again with a query that starts, after a pause that doubles each time. */
    private static final long FIRST_PAUSE_S = 10, LONGEST_PAUSE_S = 600;
    /** Spark stops a context at 50, and with it delivers what listeners are to get. */
    private static final int AFTER_THE_CONTEXT = 10;

    private static SparkContext known;
    private static Side current;
    private static long startedAt;
    /** How long one that has ended stays so. */
    private static long pauseS;
    private static boolean endsWithSpark;

    private Sides() {}

    /** Starts the side of a context, if none was started for it yet: it comes up while the query is being made. */
    static synchronized void prepare(SparkContext context) {
        if (known != context) {
            end();
            known = context;
            pauseS = FIRST_PAUSE_S;
            if (isWanted(context.conf())) {
                start(context);
            }
        }
    }

    /**
     * Returns the side of a context for a query that starts; null where nobody wants one.
     *
     * @throws IllegalStateException when there is none, whose message says why
     */
    static synchronized Side of(SparkContext context) {
        if (!isWanted(context.conf())) {
            return null;
        }
        prepare(context);
        boolean isOver = current == null || current.ended() != null;
        if (isOver && System.nanoTime() - startedAt > TimeUnit.SECONDS.toNanos(pauseS)) {
            pauseS = Math.min(2 * pauseS, LONGEST_PAUSE_S);
            end();
            start(context);
        }
        if (current == null || current.ended() != null) {
            throw new IllegalStateException("the side process " + (current == null ? "cannot start" : current.ended()));
        }
        return current;
    }

    private static boolean isWanted(SparkConf conf) {
        String enabled = conf.get(ENABLED, "").trim();
        boolean isFlag = enabled.equalsIgnoreCase("true") || enabled.equalsIgnoreCase("false");
        return isFlag ? Boolean.parseBoolean(enabled) : conf.contains(CONTROLLER); // the side says what is left out
    }

    private static void start(SparkContext context) {
        startedAt = System.nanoTime();
        try {
            current = new Side(context);
        } catch (Exception problem) {
            Side.LOG.warn("tidemark: the side process cannot start: {}", problem.toString());
        }
        if (!endsWithSpark) {
            endsWithSpark = true;
            ShutdownHookManager.addShutdownHook(AFTER_THE_CONTEXT, () -> {
                end();
                return BoxedUnit.UNIT;
            });
        }
    }

    private static synchronized void end() {
        if (current != null) {
            current.close();
            current = null;
        }
    }
}
