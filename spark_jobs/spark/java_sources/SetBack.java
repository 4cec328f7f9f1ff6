package tidemark;

import org.apache.spark.TaskContext;
import org.apache.spark.sql.api.java.UDF2;

/**
 * Sets an event time that is ahead of its batch's clock back to that clock.
 *
 * <p>The clock costs more than all the rest, so it is asked for only by a task's first row, and by rows after the latest
 * time that is allowed: without a clock, {@code call} returns null where it does not know the answer. Of {@code
 * coalesce(call(time, null), call(time, clock))} Spark evaluates the second part only then.
 */
public final class SetBack implements UDF2 {
    /** Its name in plans, by which {@link BatchClock} knows its calls. */
    public static final String NAME = "tidemark_set_back";
    private final long allowance;
    private final long granule;
    private final long after;
    /** No time until this one is ahead; a task knows it once it has seen the clock of its batch. */
    private long latest = Long.MIN_VALUE;

    /**
     * @param allowance how far ahead of the clock a time may be, in microseconds
     * @param granule width of a granule in microseconds: what is ahead begins with a whole one
     * @param after 1 where a granule holds its upper edge, else 0
     */
    public SetBack(long allowance, long granule, long after) {
        this.allowance = allowance;
        this.granule = granule;
        this.after = after;
    }

    /**
     * @param time an event time in microseconds, a {@code Long}, or null
     * @param clock the clock of the batch in microseconds, a {@code Long} or its text, or null to ask without it
     * @return {@code time}, or {@code clock} where that is too far ahead; null without a time, and when the clock is needed
     */
    public Object call(Object time, Object clock) {
        if (time == null) {
            return null;
        }
        long at = ((Long) time).longValue();
        if (at <= this.latest) {
            return time;
        }
        if (clock == null) {
            return null;
        }
        long now = clock instanceof Long ? ((Long) clock).longValue() : Long.parseLong((String) clock);
        long allowed = now + this.allowance - this.after;
        if (TaskContext.get() != null) { // a task belongs to one batch; an object in the driver may see several
            this.latest = allowed;
        }
        long firstAhead = (allowed / this.granule + 1L) * this.granule + this.after;
        return Long.valueOf(at <= allowed || at < firstAhead ? at : now);
    }
}
