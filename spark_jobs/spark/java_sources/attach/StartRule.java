package tidemark.attach;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.plans.logical.AnalysisHelper$;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.streaming.WriteToStream;

/**
 * Puts taps and bounds into a streaming query as it starts.
 *
 * <p>{@code start()} has the whole query analysed once more, below a {@code WriteToStream}. No other plan has that node:
 * not a batch query, not {@code explain()}, not the plans of the query's own batches. So each start asks once for each
 * watermark, and knows the query's name and checkpoint.
 */
final class StartRule extends Rule<LogicalPlan> {
    private final SparkSession session;

    StartRule(SparkSession session) {
        this.session = session;
    }

    @Override
    public LogicalPlan apply(LogicalPlan plan) {
        try {
            if (plan instanceof WriteToStream) {
                return this.rewritten((WriteToStream) plan);
            }
            if (plan.resolved() && plan.isStreaming()) {
                Sides.prepare(this.session.sparkContext());
            }
        } catch (IllegalStateException problem) {
            Side.LOG.warn("tidemark: {} runs as it is: {}", named(plan), problem.getMessage());
        } catch (Throwable problem) { // the job comes first
            Side.LOG.warn("tidemark: {} runs as it is", named(plan), problem);
        }
        return plan;
    }

    private static String named(LogicalPlan plan) {
        if (!(plan instanceof WriteToStream)) {
            return "each query";
        }
        WriteToStream write = (WriteToStream) plan;
        return "query " + (write.name() == null ? write.resolvedCheckpointLocation() : write.name());
    }

    private LogicalPlan rewritten(WriteToStream write) {
        Side side = Sides.of(this.session.sparkContext());
        if (side == null) {
            return write;
        }
        // All watermarks of a query share one time limit, and know which names are taken in it.
        long until = side.deadline();
        List<String> taken = new ArrayList<>();
        Rewriting rewriting =
                new Rewriting(node -> (LogicalPlan) side.ask(until, this.session, write, node, taken));
        return AnalysisHelper$.MODULE$.allowInvokingTransformsInAnalyzer(() -> write.transformUp(rewriting));
    }
}
