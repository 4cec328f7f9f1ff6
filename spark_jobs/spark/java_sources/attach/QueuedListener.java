package tidemark.attach;

import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Executors;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeoutException;
import org.apache.spark.sql.streaming.StreamingQueryListener;

/**
 * Stands before a listener in the side process, so that nothing of Spark waits for that longer than the time limit.
 *
 * <p>Spark calls {@code onQueryStarted} within {@code start()}, and waits. What listeners are told later comes by one
 * thread for all of them, which one that hangs would stop.
 */
final class QueuedListener extends StreamingQueryListener {
    /** Events that wait: as many as a query of one batch a second has in a quarter of an hour. */
    private static final int LIMIT = 1_000;

    private final StreamingQueryListener behind;
    private final Side side;
    private final BlockingQueue<Runnable> events = new LinkedBlockingQueue<>(LIMIT);
    private final Thread thread;
    /** When the event began that is delivered now; 0 for none. */
    private volatile long began;
    private boolean full;

    QueuedListener(StreamingQueryListener behind, Side side) {
        this.behind = behind;
        this.side = side;
        this.thread = Calls.inDaemon("events", this::deliver);
    }

    /** Waits, for the time limit at most: a query is known to the side before its first batch. */
    @Override
    public void onQueryStarted(QueryStartedEvent event) {
        try {
            Calls.within(this.side.limitNanos(), "started", Executors.callable(() -> this.behind.onQueryStarted(event)));
        } catch (TimeoutException hangs) {
            this.side.kill("does not take the start of a query");
        } catch (Exception problem) {
            Side.LOG.warn("tidemark: the start of query {} is missed: {}", event.id(), problem.toString());
        }
    }

    @Override
    public void onQueryProgress(QueryProgressEvent event) {
        this.later(() -> this.behind.onQueryProgress(event));
    }

    @Override
    public void onQueryIdle(QueryIdleEvent event) {
        this.later(() -> this.behind.onQueryIdle(event));
    }

    @Override
    public void onQueryTerminated(QueryTerminatedEvent event) {
        this.later(() -> this.behind.onQueryTerminated(event));
    }

    void stop() {
        this.thread.interrupt();
    }

    private void later(Runnable event) {
        long since = this.began;
        if (since != 0 && System.nanoTime() - since > this.side.limitNanos()) {
            this.side.kill("does not take the progress of a query");
        } else if (!this.events.offer(event) && !this.full) {
            this.full = true;
            Side.LOG.warn("tidemark: {} events of queries wait; those that come now are dropped", LIMIT);
        }
    }

    private void deliver() {
        try {
            while (true) {
                Runnable event = this.events.take();
                this.began = System.nanoTime();
                try {
                    event.run();
                } catch (RuntimeException problem) {
                    Side.LOG.warn("tidemark: an event of a query is missed: {}", problem.toString());
                }
                this.began = 0;
            }
        } catch (InterruptedException stopped) {
            this.events.clear();
        }
    }
}
