package tidemark;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.util.AccumulatorV2;
import org.apache.spark.util.CollectionAccumulator;

/**
 * What the tasks of each batch counted, in the driver.
 *
 * <p>Of each partition of a stage the longest pass counts. So a batch that is read more than once, because the sink asks
 * for it several times or a task is repeated, is counted once.
 *
 * <p>Tasks have Spark's own accumulator in its place ({@code copyAndReset} returns one), so the driver needs no class of
 * these to read a task's result.
 */
public final class BatchCounts extends CollectionAccumulator {
    /** Batches of a query that are kept until somebody takes them; as many as Spark keeps progresses. */
    private static final int KEPT = 100;

    private final RowCounter.Grid grid;
    /** By query and batch, in the order in which they began: by partition its longest pass. */
    private final HashMap queries = new HashMap();
    /** Passes of threads that did not know the batch that they read. */
    private HashMap unknown = new HashMap();

    /** @param grid how rows became keys */
    public BatchCounts(RowCounter.Grid grid) {
        this.grid = grid;
    }

    public void merge(AccumulatorV2 other) {
        List found = ((CollectionAccumulator) other).value();
        for (int i = 0; i < found.size(); i++) {
            Object[] entry = (Object[]) found.get(i);
            this.keep((String) entry[0], (String) entry[1], entry[2], (Object[]) entry[3]);
        }
    }

    private synchronized void keep(String query, String batch, Object partition, Object[] pass) {
        HashMap passes = this.unknown;
        if (query != null && batch != null) {
            LinkedHashMap batches = (LinkedHashMap) this.queries.get(query);
            if (batches == null) {
                batches = new LinkedHashMap();
                this.queries.put(query, batches);
            }
            passes = (HashMap) batches.get(batch);
            if (passes == null) {
                passes = new HashMap();
                batches.put(batch, passes);
            }
            Iterator oldest = batches.keySet().iterator();
            while (batches.size() > KEPT) {
                oldest.next();
                oldest.remove();
            }
        }
        Object[] known = (Object[]) passes.get(partition);
        if (known == null || rowsOf(known) < rowsOf(pass)) {
            passes.put(partition, pass);
        }
    }

    /** Drops what is known of a query: a batch that failed is read anew by its next run. */
    public synchronized void forget(String query) {
        this.queries.remove(query);
        this.unknown.clear();
    }

    /** Returns what was counted of a batch, as JSON, and drops it; null when no task read a row of it. */
    public String take(String query, String batch) {
        HashMap passes = null;
        HashMap unknown;
        synchronized (this) {
            LinkedHashMap batches = (LinkedHashMap) this.queries.get(query);
            if (batches != null) {
                passes = (HashMap) batches.remove(batch);
            }
            unknown = this.unknown;
            this.unknown = new HashMap();
        }
        if (passes == null && unknown.isEmpty()) {
            return null;
        }
        Sum sum = this.sumOf(passes, unknown, false);
        String counted = sum.toJson(unknown.isEmpty());
        if (!sum.followed) {
            return counted;
        }
        Sum behind = this.sumOf(passes, unknown, true);
        String reached = behind.totals[RowCounter.Pass.ROWS] == 0L ? "null" : behind.toJson(unknown.isEmpty());
        return counted.substring(0, counted.length() - 1) + ",\"behind\":" + reached + "}";
    }

    /** Returns the sum of what the first or the second counter of each stage counted. */
    private Sum sumOf(HashMap passes, HashMap unknown, boolean behind) {
        Sum sum = new Sum(this.grid);
        sum.add(passes, behind);
        sum.add(unknown, behind);
        if (!unknown.isEmpty()) {
            sum.counts.overflow();
        }
        return sum;
    }

    static long rowsOf(Object[] pass) {
        return ((long[]) pass[0])[RowCounter.Pass.ROWS];
    }

    /** The sum of several passes. */
    static final class Sum {
        final RowCounter.Grid grid;
        final RowCounter.LongCounts counts;
        /** Whether a second counter has the rows that reach the operator. */
        boolean followed;
        private final HashMap names = new HashMap();
        private final ArrayList texts = new ArrayList();
        private final long[] totals = new long[RowCounter.Pass.TOTALS];
        private double sumDelay;

        Sum(RowCounter.Grid grid) {
            this.grid = grid;
            this.counts = new RowCounter.LongCounts(grid.maxKeys);
            this.totals[RowCounter.Pass.LAST] = Long.MIN_VALUE;
            this.totals[RowCounter.Pass.MIN_DELAY] = Long.MAX_VALUE;
            this.totals[RowCounter.Pass.MAX_DELAY] = Long.MIN_VALUE;
            this.totals[RowCounter.Pass.TYPE] = Long.MAX_VALUE;
        }

        void add(HashMap passes, boolean behind) {
            if (passes != null) {
                Iterator each = passes.entrySet().iterator();
                while (each.hasNext()) {
                    Map.Entry entry = (Map.Entry) each.next();
                    int partition = ((Integer) entry.getKey()).intValue();
                    if (partition < 0 == behind) {
                        this.followed |= (partition & RowCounter.FOLLOWED) != 0;
                        this.add((Object[]) entry.getValue());
                    }
                }
            }
        }

        private void add(Object[] pass) {
            long[] found = (long[]) pass[0];
            int[] added = {RowCounter.Pass.ROWS, RowCounter.Pass.NULLS, RowCounter.Pass.ASIDE, RowCounter.Pass.DELAYS};
            for (int i = 0; i < added.length; i++) {
                this.totals[added[i]] += found[added[i]];
            }
            int[] least = {RowCounter.Pass.MIN_DELAY, RowCounter.Pass.TYPE};
            for (int i = 0; i < least.length; i++) {
                this.totals[least[i]] = Math.min(this.totals[least[i]], found[least[i]]);
            }
            int[] most = {RowCounter.Pass.LAST, RowCounter.Pass.MAX_DELAY};
            for (int i = 0; i < most.length; i++) {
                this.totals[most[i]] = Math.max(this.totals[most[i]], found[most[i]]);
            }
            this.sumDelay += ((double[]) pass[1])[0];
            long[] keys = (long[]) pass[2];
            long[] counts = (long[]) pass[3];
            long[] numbers = this.numbersOf((byte[][]) pass[4]);
            long counted = 0L;
            for (int i = 0; i < keys.length; i++) {
                this.counts.add(this.grid.named ? this.renamed(keys[i], numbers) : keys[i], counts[i]);
                counted += counts[i];
            }
            if (counted != found[RowCounter.Pass.ROWS] - found[RowCounter.Pass.NULLS]) {
                this.counts.overflow();
            }
        }

        private long[] numbersOf(byte[][] texts) {
            long[] numbers = new long[texts.length];
            for (int i = 0; i < texts.length; i++) {
                RowCounter.Name name = new RowCounter.Name(texts[i]);
                RowCounter.Name known = (RowCounter.Name) this.names.get(name);
                if (known == null) {
                    known = name;
                    known.number = (long) this.texts.size();
                    this.names.put(name, name);
                    this.texts.add(texts[i]);
                }
                numbers[i] = known.number;
            }
            return numbers;
        }

        private long renamed(long key, long[] numbers) {
            long plain = key < 0L ? ~key : key;
            long time = plain & ((1L << this.grid.bits) - 1L);
            long renamed = (numbers[(int) (plain >>> this.grid.bits)] << this.grid.bits) | time;
            return key < 0L ? ~renamed : renamed;
        }

        /** Writes keys as {@code stage_counts} of {@code key_counts.py} reads them: each as its distance from the last. */
        String toJson(boolean known) {
            StringBuilder steps = new StringBuilder();
            StringBuilder rows = new StringBuilder();
            StringBuilder texts = new StringBuilder();
            long[] keys = this.counts.sortedKeys();
            long[] counts = this.counts.of(keys);
            long before = 0L;
            for (int i = 0; i < keys.length; i++) {
                steps.append(i == 0 ? "" : " ").append(keys[i] - before);
                rows.append(i == 0 ? "" : " ").append(counts[i]);
                before = keys[i];
            }
            for (int i = 0; i < this.texts.size(); i++) {
                String text = Base64.getEncoder().encodeToString((byte[]) this.texts.get(i));
                texts.append(i == 0 ? "\"" : ",\"").append(text).append('"');
            }
            long[] totals = this.totals;
            StringBuilder json = new StringBuilder();
            json.append("{\"rows\":").append(totals[RowCounter.Pass.ROWS] - totals[RowCounter.Pass.ASIDE]);
            json.append(",\"all\":").append(totals[RowCounter.Pass.ROWS]);
            json.append(",\"nulls\":").append(totals[RowCounter.Pass.NULLS]);
            json.append(",\"known\":").append(known);
            json.append(",\"exact\":").append(this.counts.exact);
            json.append(",\"steps\":\"").append(steps).append("\",\"counts\":\"").append(rows).append('"');
            if (this.grid.named) {
                json.append(",\"names\":[").append(texts).append(']');
            }
            if (totals[RowCounter.Pass.LAST] != Long.MIN_VALUE) {
                json.append(",\"last\":").append(totals[RowCounter.Pass.LAST]);
            }
            if (totals[RowCounter.Pass.DELAYS] > 0L) {
                json.append(",\"appended\":").append(totals[RowCounter.Pass.DELAYS]);
                json.append(",\"min_delay\":").append(totals[RowCounter.Pass.MIN_DELAY]);
                json.append(",\"mean_delay\":").append(this.sumDelay / (double) totals[RowCounter.Pass.DELAYS]);
                json.append(",\"max_delay\":").append(totals[RowCounter.Pass.MAX_DELAY]);
                json.append(",\"append_type\":").append(totals[RowCounter.Pass.TYPE]);
            }
            return json.append('}').toString();
        }
    }
}
