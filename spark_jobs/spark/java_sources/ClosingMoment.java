package tidemark;

import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Lock;
import org.apache.spark.sql.streaming.StreamingQueryStatus;

/**
 * Finds the batch of a run with {@code availableNow} in which nothing is left to read, and moves the watermark in it.
 *
 * <p>Spark ends each batch under the lock of its progress ({@code MicroBatchExecution.withProgressLocked}), so a batch goes
 * on while this thread holds the lock, and no batch is too short to be seen: Spark's lock is fair, and it holds it while
 * it plans one. Spark waits for who says how far the watermark moves, but for no longer than two seconds.
 *
 * <p>Spark plans a batch without rows only when the watermark has moved, so each batch with rows lets it move by a
 * millisecond at least.
 */
public final class ClosingMoment implements Runnable {
    private static final long LOOK_MS = 2L;
    private static final long PATIENCE_MS = 2000L;
    private static final String WITH_ROWS = "Processing new data";
    private static final String WITHOUT_ROWS = "No new data but cleaning up state";
    private final Object execution;
    private final WatermarkSteering watermark;
    private final ArrayBlockingQueue moments = new ArrayBlockingQueue(2);
    private final ArrayBlockingQueue targets = new ArrayBlockingQueue(1);
    private final ArrayBlockingQueue reached = new ArrayBlockingQueue(1);
    private volatile Exception failure;
    private volatile boolean ended;
    private long seen = -1L;

    /**
     * @param execution Spark's own object of the run, a {@code MicroBatchExecution}
     * @param watermark what moves its watermark
     */
    public ClosingMoment(Object execution, WatermarkSteering watermark) {
        this.execution = execution;
        this.watermark = watermark;
    }

    /** Begins to look. */
    public void start() {
        Thread thread = new Thread(this, "tidemark-closing");
        thread.setDaemon(true);
        thread.start();
    }

    /** Ends: the run has. */
    public void end() {
        this.ended = true;
        this.moments.offer(Boolean.FALSE);
    }

    /**
     * Waits for the moment, for which {@code close} is to be called at once.
     *
     * @return whether it has come; else the run has ended
     * @throws Exception what went wrong: then it never comes
     */
    public boolean comes() throws Exception {
        boolean come = ((Boolean) this.moments.take()).booleanValue();
        if (this.failure != null) {
            throw this.failure;
        }
        return come;
    }

    /**
     * Lets the watermark be at least {@code target} in the batch that follows.
     *
     * @param target in milliseconds since the epoch; -1 to move nothing
     * @return where it is then; -1 where it has not moved, or the moment was missed
     * @throws InterruptedException when this thread is to end
     */
    public long close(long target) throws InterruptedException {
        this.targets.offer(Long.valueOf(target));
        Long found = (Long) this.reached.poll(PATIENCE_MS, TimeUnit.MILLISECONDS);
        return found == null ? -1L : found.longValue();
    }

    @Override
    public void run() {
        try {
            while (!this.ended && !this.look()) {
                Thread.sleep(LOOK_MS);
            }
        } catch (Exception error) {
            this.failure = error;
        }
        this.end();
    }

    /** Does what the moment allows; returns whether the run is closed. */
    private boolean look() throws Exception {
        Lock lock = (Lock) WatermarkSteering.call(this.execution, "awaitProgressLock");
        lock.lockInterruptibly();
        try {
            long batch = this.watermark.plannedBatch();
            String doing = ((StreamingQueryStatus) WatermarkSteering.call(this.execution, "status")).message();
            if (batch <= this.seen || !doing.equals(WITH_ROWS) && !doing.equals(WITHOUT_ROWS)) {
                return false;
            }
            this.seen = batch;
            return doing.equals(WITH_ROWS) ? this.moveALittle() : this.moveToTarget();
        } finally {
            lock.unlock();
        }
    }

    private boolean moveALittle() throws Exception {
        this.watermark.raiseTo(this.watermark.raiseTo(0L) + 1L);
        return false;
    }

    private boolean moveToTarget() throws Exception {
        this.targets.clear();
        this.reached.clear();
        this.moments.offer(Boolean.TRUE);
        Long target = (Long) this.targets.poll(PATIENCE_MS, TimeUnit.MILLISECONDS);
        long moved = target == null || target.longValue() < 0L ? -1L : this.watermark.raiseTo(target.longValue());
        this.reached.offer(Long.valueOf(moved));
        return moved >= 0L;
    }
}
