package tidemark;

import java.io.Serializable;
import java.util.Arrays;
import java.util.HashMap;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.api.java.UDF6;
import org.apache.spark.util.CollectionAccumulator;
import org.apache.spark.util.TaskCompletionListener;

/**
 * Counts the rows of a task by partition and granule, as a function that Spark compiles into the stage.
 *
 * <p>Its only result is {@code true}. What it counted goes to {@link BatchCounts}, when the task ends. It is compiled by
 * the compiler that Spark has for its own generated code, which knows no lambdas and no generic bridge methods: hence
 * raw types.
 */
public final class RowCounter implements UDF6, TaskCompletionListener {
    /** Values of the argument {@code ahead}; see {@code tap.py}. */
    private static final long TAKEN = 0L, SET_ASIDE = 2L;
    /** Numbers of rows that are set aside and of times out of range; see {@code tap.py}. */
    private static final long ASIDE_NUMBER = 0L, BEFORE_NUMBER = 1L, AFTER_NUMBER = 2L;
    /** A bit in the number of a partition that says that a second counter has the rows which reach the operator. */
    public static final int FOLLOWED = 1 << 30;
    private final CollectionAccumulator found;
    private final Grid grid;
    /** By the number of a partition of the stage: a task may read several, one after the other. */
    private transient HashMap passes;
    private transient Pass pass;
    /** Of the second counter of the same stage. */
    private transient Pass behind;

    /**
     * @param found takes what was counted; elements are arrays: see {@link Pass#toArray}
     * @param grid how rows become keys
     */
    public RowCounter(CollectionAccumulator found, Grid grid) {
        this.found = found;
        this.grid = grid;
    }

    /**
     * Counts a row.
     *
     * @param stagePartition the number of the partition of the stage, an {@code Integer}, with {@link #FOLLOWED} where
     *     another counter stands behind this one, and complemented where this one is that ({@link PlaceCounters})
     * @param time its event time in microseconds, a {@code Long}, or null
     * @param partition the partition that it is counted for: a {@code Long}, the UTF-8 of a name, or null
     * @param ahead what became of it, an {@code Integer}; null where no rows are marked
     * @param arrival the source's own timestamp in microseconds, a {@code Long}, or null
     * @param arrivalType whose timestamp that is, an {@code Integer}, or null
     * @return whether the row stays in the stream; one that is set aside does not
     */
    public Object call(
            Object stagePartition, Object time, Object partition, Object ahead, Object arrival, Object arrivalType) {
        int number = ((Integer) stagePartition).intValue();
        Pass into = number < 0 ? this.behind : this.pass;
        if (into == null || number != into.partition) {
            into = this.turnTo(number);
        }
        if (arrivalType != null) {
            into.arrivalType = Math.min(into.arrivalType, ((Integer) arrivalType).longValue());
        }
        if (time == null) {
            into.nulls++;
            return Boolean.TRUE;
        }
        long at = ((Long) time).longValue();
        long fate = ahead == null ? TAKEN : ((Integer) ahead).longValue();
        long key;
        if (fate == SET_ASIDE) {
            into.aside++;
            key = ASIDE_NUMBER;
        } else {
            key = this.grid.numberOf(at);
        }
        if (this.grid.named) {
            key |= into.nameOf((byte[]) partition) << this.grid.bits;
        } else if (this.grid.partitioned) {
            key |= this.grid.partitionOf(partition) << this.grid.bits;
        }
        if (fate == TAKEN) {
            into.last = Math.max(into.last, at);
            if (arrival != null) {
                into.delayed(((Long) arrival).longValue(), at, this.grid.allowance);
            }
        } else {
            key = ~key;
        }
        into.counts.add(key, 1L);
        return Boolean.valueOf(fate != SET_ASIDE);
    }

    private Pass turnTo(int partition) {
        if (this.passes == null) {
            this.passes = new HashMap();
            TaskContext context = TaskContext.get();
            if (context != null) {
                context.addTaskCompletionListener((TaskCompletionListener) this);
            }
        }
        Integer number = Integer.valueOf(partition);
        Pass found = (Pass) this.passes.get(number);
        if (found == null) {
            found = new Pass(partition, this.grid.maxKeys);
            this.passes.put(number, found);
        }
        if (partition < 0) {
            this.behind = found;
        } else {
            this.pass = found;
        }
        return found;
    }

    /** Passes on what the task counted. That of a task that fails is dropped by Spark. */
    public void onTaskCompletion(TaskContext context) {
        String query = context.getLocalProperty("sql.streaming.queryId");
        String batch = context.getLocalProperty("streaming.sql.batchId");
        Object[] passes = this.passes.values().toArray();
        for (int i = 0; i < passes.length; i++) {
            Pass pass = (Pass) passes[i];
            this.found.add(new Object[] {query, batch, Integer.valueOf(pass.partition), pass.toArray()});
        }
    }

    /** How rows become keys: a key is the number of a time, and above it that of a partition or a name. */
    public static final class Grid implements Serializable {
        public final long granule;
        public final long[] shifts;
        public final long first;
        public final long end;
        public final int bits;
        public final long other;
        public final boolean named;
        public final boolean partitioned;
        public final int maxKeys;
        public final long allowance;

        /**
         * @param granule width of a granule in microseconds
         * @param shifts what is added to a time before it is divided by that; a time's number is the sum of the quotients
         * @param first the minimum time that has a number
         * @param end the time after the last one that has a number
         * @param bits bits of the number of a time in a key
         * @param other the number that all partitions share whose own does not fit; all bits of a key above a time's
         * @param named whether partitions are names
         * @param partitioned whether rows have partitions
         * @param maxKeys distinct keys to count; of more keys only the rows are counted
         * @param allowance how far before its arrival a row may be dated to have a delay, in microseconds
         */
        public Grid(
                long granule, long[] shifts, long first, long end, int bits, long other, boolean named,
                boolean partitioned, int maxKeys, long allowance) {
            this.granule = granule;
            this.shifts = shifts;
            this.first = first;
            this.end = end;
            this.bits = bits;
            this.other = other;
            this.named = named;
            this.partitioned = partitioned;
            this.maxKeys = maxKeys;
            this.allowance = allowance;
        }

        long numberOf(long time) {
            if (time < this.first) {
                return BEFORE_NUMBER;
            }
            if (time >= this.end) {
                return AFTER_NUMBER;
            }
            // Times that are shifted are not negative, and the division of such numbers rounds down.
            long number = (time + this.shifts[0]) / this.granule;
            return this.shifts.length == 1 ? number : number + (time + this.shifts[1]) / this.granule;
        }

        long partitionOf(Object partition) {
            long number = partition == null ? -1L : ((Long) partition).longValue();
            return number < 0L || number >= this.other ? this.other : number;
        }
    }

    /** What a task counted of one partition of the stage. */
    public static final class Pass {
        /** Positions of the totals in what {@code toArray} returns first. */
        public static final int ROWS = 0, NULLS = 1, ASIDE = 2, LAST = 3, DELAYS = 4, MIN_DELAY = 5, MAX_DELAY = 6, TYPE = 7,
                TOTALS = 8;

        public final int partition;
        public final LongCounts counts;
        public final HashMap names = new HashMap();
        public long nulls;
        public long aside;
        public long last = Long.MIN_VALUE;
        public long delays;
        public long minDelay = Long.MAX_VALUE;
        public long maxDelay = Long.MIN_VALUE;
        public double sumDelay;
        public long arrivalType = Long.MAX_VALUE;
        private Name lastName;

        public Pass(int partition, int maxKeys) {
            this.partition = partition;
            this.counts = new LongCounts(maxKeys);
        }

        public void delayed(long arrival, long time, long allowance) {
            long delay = arrival - time;
            // Times a quarter of a million years apart have no difference.
            if (((arrival ^ time) & (arrival ^ delay)) < 0L || delay < -allowance) {
                return;
            }
            this.delays++;
            this.minDelay = Math.min(this.minDelay, delay);
            this.maxDelay = Math.max(this.maxDelay, delay);
            this.sumDelay += (double) delay;
        }

        public long nameOf(byte[] text) {
            if (this.lastName == null || !Arrays.equals(this.lastName.text, text)) {
                Name name = new Name(text);
                Name known = (Name) this.names.get(name);
                if (known == null) {
                    // Of more names than keys nothing is counted but rows.
                    name.number = Math.min(this.names.size(), this.counts.maxKeys);
                    known = name;
                    if (name.number < this.counts.maxKeys) {
                        this.names.put(name, name);
                    } else {
                        this.counts.overflow();
                    }
                }
                this.lastName = known;
            }
            return this.lastName.number;
        }

        /** Returns classes of the JDK alone, which every driver can read: totals, a sum, keys, counts and names. */
        public Object[] toArray() {
            long rows = this.nulls + this.counts.total;
            long[] totals = new long[TOTALS];
            totals[ROWS] = rows;
            totals[NULLS] = this.nulls;
            totals[ASIDE] = this.aside;
            totals[LAST] = this.last;
            totals[DELAYS] = this.delays;
            totals[MIN_DELAY] = this.minDelay;
            totals[MAX_DELAY] = this.maxDelay;
            totals[TYPE] = this.arrivalType;
            byte[][] texts = new byte[this.counts.exact ? this.names.size() : 0][];
            Object[] known = this.counts.exact ? this.names.values().toArray() : new Object[0];
            for (int i = 0; i < known.length; i++) {
                texts[(int) ((Name) known[i]).number] = ((Name) known[i]).text;
            }
            long[] keys = this.counts.sortedKeys();
            return new Object[] {totals, new double[] {this.sumDelay}, keys, this.counts.of(keys), texts};
        }
    }

    /** A partition's name. */
    public static final class Name {
        public final byte[] text;
        public final int hash;
        public long number;

        public Name(byte[] text) {
            this.text = text;
            this.hash = Arrays.hashCode(text);
        }

        public int hashCode() {
            return this.hash;
        }

        public boolean equals(Object other) {
            return other instanceof Name && Arrays.equals(this.text, ((Name) other).text);
        }
    }

    /** Counts by number, as long as the distinct ones fit: a hash table with open addressing. */
    public static final class LongCounts {
        private static final long GOLDEN = -7046029254386353131L;

        public final int maxKeys;
        /** All that was counted, also where the keys did not fit. */
        public long total;
        /** Whether all keys fitted. */
        public boolean exact = true;

        private long[] keys = new long[256];
        private long[] counts = new long[256];
        private int size;
        private int shift = 56;

        public LongCounts(int maxKeys) {
            this.maxKeys = maxKeys;
        }

        public void add(long key, long count) {
            this.total += count;
            long[] keys = this.keys;
            long[] counts = this.counts;
            int mask = keys.length - 1;
            int at = (int) ((key * GOLDEN) >>> this.shift);
            while (counts[at] != 0L && keys[at] != key) {
                at = (at + 1) & mask;
            }
            if (counts[at] == 0L) {
                if (!this.exact) {
                    return;
                }
                keys[at] = key;
                this.size++;
                if (this.size > this.maxKeys) {
                    this.overflow();
                    return;
                }
            }
            counts[at] += count;
            if (2 * this.size > keys.length) {
                this.grow();
            }
        }

        /** Drops all keys, and takes no more. */
        public void overflow() {
            this.exact = false;
            this.size = 0;
            this.keys = new long[256];
            this.counts = new long[256];
            this.shift = 56;
        }

        private void grow() {
            long[] keys = this.keys;
            long[] counts = this.counts;
            this.keys = new long[2 * keys.length];
            this.counts = new long[2 * keys.length];
            this.shift--;
            for (int i = 0; i < keys.length; i++) {
                if (counts[i] != 0L) {
                    int at = this.find(keys[i]);
                    this.keys[at] = keys[i];
                    this.counts[at] = counts[i];
                }
            }
        }

        private int find(long key) {
            int at = (int) ((key * GOLDEN) >>> this.shift);
            while (this.counts[at] != 0L && this.keys[at] != key) {
                at = (at + 1) & (this.keys.length - 1);
            }
            return at;
        }

        public long[] sortedKeys() {
            long[] sorted = new long[this.size];
            int next = 0;
            for (int i = 0; i < this.keys.length; i++) {
                if (this.counts[i] != 0L) {
                    sorted[next++] = this.keys[i];
                }
            }
            Arrays.sort(sorted);
            return sorted;
        }

        public long[] of(long[] keys) {
            long[] found = new long[keys.length];
            for (int i = 0; i < keys.length; i++) {
                found[i] = this.counts[this.find(keys[i])];
            }
            return found;
        }
    }
}
