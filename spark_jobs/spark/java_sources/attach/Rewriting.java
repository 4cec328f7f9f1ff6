package tidemark.attach;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.plans.logical.CollectMetrics;
import org.apache.spark.sql.catalyst.plans.logical.EventTimeWatermark;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.MetadataBuilder;
import scala.Function1;
import scala.Option;
import scala.collection.immutable.List$;
import scala.collection.mutable.ListBuffer;
import scala.runtime.AbstractPartialFunction;

/** From below upwards: replaces watermarks, and above them what their columns carry of the old bound. */
final class Rewriting extends AbstractPartialFunction<LogicalPlan, LogicalPlan> {
    private static final String TAP = "tidemark:";
    private static final String DELAY = "spark.watermarkDelayMs";

    /** What becomes of a watermark. */
    interface Replacement {
        /** Returns the plan that takes its place; null to leave it. */
        LogicalPlan of(EventTimeWatermark node) throws Exception;
    }

    private final Replacement replacement;
    /** By expression id what a column carries now. */
    private final Map<Long, Metadata> changed = new HashMap<>();

    Rewriting(Replacement replacement) {
        this.replacement = replacement;
    }

    @Override
    public boolean isDefinedAt(LogicalPlan node) {
        return true;
    }

    @Override
    @SuppressWarnings("unchecked")
    public <A extends LogicalPlan, B> B applyOrElse(A node, Function1<A, B> otherwise) {
        LogicalPlan made = node;
        // One that has a tap is of a call of adaptive_watermark.
        if (node instanceof EventTimeWatermark && !tapped(((EventTimeWatermark) node).child())) {
            made = this.replaced((EventTimeWatermark) node);
        } else if (!this.changed.isEmpty()) {
            made = (LogicalPlan) node.transformExpressions(new Delays(this.changed));
        }
        if (made != node) {
            made.copyTagsFrom(node);
            for (Attribute column : items(made.output())) {
                if (column.metadata().contains(DELAY)) {
                    this.changed.put(column.exprId().id(), column.metadata());
                }
            }
        }
        return (B) made;
    }

    private LogicalPlan replaced(EventTimeWatermark node) {
        LogicalPlan found;
        try {
            found = this.replacement.of(node);
        } catch (Exception problem) { // Scala's functions declare none
            throw new IllegalStateException(problem.getMessage(), problem);
        }
        return found == null ? node : withIds(node, found);
    }

    /** Gives the columns of a plan the expression ids that the nodes above know. */
    private static LogicalPlan withIds(LogicalPlan old, LogicalPlan made) {
        List<Attribute> before = items(old.output());
        List<Attribute> now = items(made.output());
        if (before.size() != now.size()) {
            throw new IllegalStateException("other columns: " + now + " instead of " + before);
        }
        ListBuffer<NamedExpression> columns = new ListBuffer<>();
        boolean same = true;
        for (int i = 0; i < before.size(); i++) {
            Attribute was = before.get(i);
            Attribute is = now.get(i);
            if (!was.name().equals(is.name()) || !was.dataType().equals(is.dataType())) {
                throw new IllegalStateException("column " + is + " instead of " + was);
            }
            boolean kept = was.exprId().equals(is.exprId());
            same &= kept;
            columns.$plus$eq(kept ? is : aliased(is, is.name(), was, Option.<Metadata>empty()));
        }
        return same ? made : new Project(columns.toList(), made);
    }

    private static Alias aliased(Expression child, String name, NamedExpression as, Option<Metadata> metadata) {
        return new Alias(child, name, as.exprId(), as.qualifier(), metadata, List$.MODULE$.<String>empty());
    }

    /** Returns whether there is a tap below a node, and no watermark between. */
    private static boolean tapped(LogicalPlan plan) {
        if (plan instanceof EventTimeWatermark) {
            return false;
        }
        if (plan instanceof CollectMetrics && ((CollectMetrics) plan).name().startsWith(TAP)) {
            return true;
        }
        if (plan instanceof Project) {
            for (NamedExpression column : items(((Project) plan).projectList())) {
                if (column.name().startsWith(TAP)) {
                    return true;
                }
            }
        }
        for (LogicalPlan child : items(plan.children())) {
            if (tapped(child)) {
                return true;
            }
        }
        return false;
    }

    /** Returns the items of a sequence: Scala 2.12 and 2.13 have no conversion of one name. */
    static <T> List<T> items(scala.collection.Seq<T> sequence) {
        List<T> found = new ArrayList<>();
        for (int i = 0; i < sequence.size(); i++) {
            found.add(sequence.apply(i));
        }
        return found;
    }

    /** Brings the delay in the metadata of columns up to date: some operators read the bound there, as Tidemark does. */
    private static final class Delays extends AbstractPartialFunction<Expression, Expression> {
        private final Map<Long, Metadata> changed;

        Delays(Map<Long, Metadata> changed) {
            this.changed = changed;
        }

        @Override
        public boolean isDefinedAt(Expression expression) {
            return true;
        }

        @Override
        @SuppressWarnings("unchecked")
        public <A extends Expression, B> B applyOrElse(A expression, Function1<A, B> otherwise) {
            Expression made = expression;
            if (expression instanceof AttributeReference) {
                AttributeReference column = (AttributeReference) expression;
                Metadata now = this.changed.get(column.exprId().id());
                if (now != null && column.metadata().contains(DELAY)) {
                    made = column.withMetadata(now);
                }
            } else if (expression instanceof Alias && ((Alias) expression).explicitMetadata().isDefined()) {
                made = this.window((Alias) expression);
            }
            return (B) made;
        }

        /** A column of windows has the delay of its event time in metadata of its own. */
        private Alias window(Alias column) {
            Metadata old = column.explicitMetadata().get();
            if (old.contains(DELAY)) {
                for (Attribute each : items(column.references().toSeq())) {
                    Metadata now = this.changed.get(each.exprId().id());
                    if (now != null && now.getLong(DELAY) != old.getLong(DELAY)) {
                        Metadata made =
                                new MetadataBuilder().withMetadata(old).putLong(DELAY, now.getLong(DELAY)).build();
                        return aliased(column.child(), column.name(), column, Option.apply(made));
                    }
                }
            }
            return column;
        }
    }
}
