package tidemark;

import java.lang.reflect.AccessibleObject;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.Arrays;
import java.util.HashSet;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Lock;
import scala.Option;
import scala.Tuple2;
import scala.collection.Iterator;

/**
 * Moves the watermark of one run of a query forward while it runs, through Spark's own tracker of it.
 *
 * <p>The tracker's value is what the next batch writes into the offset log before it runs, so a batch that is run again
 * has the watermark that it had. What has not been logged yet is forgotten with the driver, and no batch has seen it.
 *
 * <p>Spark asks its operators once for each batch to come whether it is needed, remembers the watermark that it asked
 * with, and ends the query if it then meets another one ({@code WatermarkPropagator}). So the watermark moves in two
 * moments alone: from the planning of a batch to the next trigger, when nobody has been asked about the batch to come, and
 * while the query finds nothing to read, when what Spark remembers can be dropped: it is then made anew, as at a restart.
 * Spark's lock of its progress keeps either moment from ending meanwhile. In any other moment nothing moves.
 */
public final class WatermarkSteering {
    private static final long PATIENCE_MS = 200L;
    private final Object execution;
    private final HashSet others;

    /**
     * @param execution Spark's own object of the run, a {@code MicroBatchExecution}
     * @param others ids of the watermark nodes in its plan that are not steered
     */
    public WatermarkSteering(Object execution, String[] others) {
        this.execution = execution;
        this.others = new HashSet(Arrays.asList(others));
    }

    /**
     * Lets the watermark be at least {@code required} in the batch that is planned next.
     *
     * <p>Where the lowest watermark of several counts, then no farther than the others have come.
     *
     * @param required in milliseconds since the epoch
     * @return where it is then; -1 where it cannot be moved at the moment
     * @throws Exception when this Spark has no such tracker
     */
    public long raiseTo(long required) throws Exception {
        Lock lock = (Lock) call(this.execution, "awaitProgressLock");
        if (!lock.tryLock(PATIENCE_MS, TimeUnit.MILLISECONDS)) {
            return -1L;
        }
        try {
            Object tracker = call(this.execution, "watermarkTracker");
            if (tracker == null) {
                return -1L;
            }
            long watermark = lowestCounts(tracker) ? Math.min(required, this.lowestOfOthers(tracker)) : required;
            long current = ((Long) call(tracker, "currentWatermark")).longValue();
            if (current >= watermark) {
                return current;
            }
            if (this.plannedBatch() < 0L) {
                if (!((Boolean) call(this.execution, "noNewData")).booleanValue()) {
                    return -1L;
                }
                Object propagator = call(this.execution, "watermarkPropagator");
                method(propagator, "purge", Long.TYPE).invoke(propagator, new Object[] {Long.valueOf(Long.MAX_VALUE)});
            }
            method(tracker, "setWatermark", Long.TYPE).invoke(tracker, new Object[] {Long.valueOf(watermark)});
            return watermark;
        } finally {
            lock.unlock();
        }
    }

    /** Returns whether Spark takes the lowest of several watermarks ({@code multipleWatermarkPolicy}), as by default. */
    private static boolean lowestCounts(Object tracker) throws Exception {
        Field policy = tracker.getClass().getDeclaredField("policy");
        AccessibleObject.setAccessible(new AccessibleObject[] {policy}, true);
        return !policy.get(tracker).getClass().getSimpleName().startsWith("Max");
    }

    private long lowestOfOthers(Object tracker) throws Exception {
        long lowest = Long.MAX_VALUE;
        if (!this.others.isEmpty()) {
            Iterator each = ((scala.collection.Map) call(tracker, "watermarkMap")).iterator(); // since Spark 4.0
            while (each.hasNext()) {
                Tuple2 node = (Tuple2) each.next();
                if (this.others.contains(node._1().toString())) {
                    Option known = (Option) node._2();
                    lowest = Math.min(lowest, known.isDefined() ? ((Long) known.get()).longValue() : 0L);
                }
            }
        }
        return lowest;
    }

    /**
     * Returns the number of the newest batch from its planning on, until the next one is looked at; else -1.
     *
     * @throws Exception when this Spark does not say it
     */
    public long plannedBatch() throws Exception {
        Object holder = this.execution;
        String number = "currentBatchId";
        Method context = find(holder.getClass(), "getLatestExecutionContext", new Class[0]);
        if (context != null) { // since Spark 4.0
            holder = context.invoke(holder, new Object[0]);
            number = "batchId";
        }
        boolean planned = holder != null && ((Boolean) call(holder, "isCurrentBatchConstructed")).booleanValue();
        return planned ? ((Long) call(holder, number)).longValue() : -1L;
    }

    /**
     * Calls a method without arguments, also a private one.
     *
     * @param object Spark's
     * @param name of the method
     * @return what it returns
     * @throws Exception when there is none, or it fails
     */
    public static Object call(Object object, String name) throws Exception {
        return method(object, name, null).invoke(object, new Object[0]);
    }

    private static Method method(Object object, String name, Class argument) throws Exception {
        Method found = find(object.getClass(), name, argument == null ? new Class[0] : new Class[] {argument});
        if (found == null) {
            throw new NoSuchMethodException(object.getClass().getName() + "." + name);
        }
        return found;
    }

    /** Returns a method of a class or of one that it extends, private ones included. */
    private static Method find(Class of, String name, Class[] arguments) {
        for (Class each = of; each != null; each = each.getSuperclass()) {
            try {
                Method found = each.getDeclaredMethod(name, arguments);
                AccessibleObject.setAccessible(new AccessibleObject[] {found}, true);
                return found;
            } catch (NoSuchMethodException error) {
                // perhaps the class that it extends has it
            }
        }
        return null;
    }
}
