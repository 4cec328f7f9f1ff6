package tidemark.attach;

import java.util.concurrent.Callable;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;

/** Work on a thread of its own: it has the caller's inherited locals, as the active session, and may be left behind. */
final class Calls {
    private Calls() {}

    /**
     * Waits for work for a time at most.
     *
     * @throws java.util.concurrent.TimeoutException when it takes longer
     * @throws java.util.concurrent.ExecutionException when it fails
     */
    static <T> T within(long nanos, String name, Callable<T> work) throws Exception {
        FutureTask<T> task = new FutureTask<>(work);
        inDaemon(name, task);
        return task.get(Math.max(nanos, 0), TimeUnit.NANOSECONDS);
    }

    /** A thread is a daemon where its maker is one; another would keep the JVM from ending after {@code main()}. */
    static Thread inDaemon(String name, Runnable work) {
        Thread thread = new Thread(work, "tidemark-" + name);
        thread.setDaemon(true);
        thread.start();
        return thread;
    }
}
