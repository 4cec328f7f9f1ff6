package tidemark;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import org.apache.spark.sql.ExperimentalMethods;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.BitwiseNot;
import org.apache.spark.sql.catalyst.expressions.BitwiseOr;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.types.DataTypes;
import scala.Option;
import scala.collection.Iterator;
import scala.collection.Seq;
import scala.collection.immutable.$colon$colon;
import scala.collection.immutable.List;
import scala.collection.immutable.Nil$;

/**
 * Places row counters in the optimised plan of each batch, where the engine judges rows.
 *
 * <p>The plan has a counter where the user called {@code adaptive_watermark}. Spark pushes filters that stand behind the
 * call below the watermark's node, but not below a counter, which is no deterministic expression. So the counter is moved
 * up to that node: it counts what the watermark is made of. And where rows are dropped or multiplied between there and
 * the stateful operator, a second counter stands behind the last node that does so. It has the same function: by the
 * first argument, the number of the stage's partition, it knows which of the two it is.
 *
 * <p>Arguments are computed where the counter stood, since the columns may end before the place it is moved to, and are
 * passed up in columns of their own. {@code placement.py} reads from the plan what has become of it: where this rule
 * cannot follow rows it leaves the plan as it is, and they are not judged.
 */
public final class PlaceCounters extends Rule {
    private static final String TAP = "tidemark:", BEHIND = ":behind", ARGUMENT = "__tidemark_argument_";
    private static final String FUNCTION = "ScalaUDF", WATERMARK = "EventTimeWatermark";
    private static final Literal FOLLOWED = new Literal(Integer.valueOf(RowCounter.FOLLOWED), DataTypes.IntegerType);
    private static final String DELAY = "spark.watermarkDelayMs", WINDOW = "spark.timeWindow";

    /** Nodes that pass each row on once. */
    private static final HashSet PASSING = new HashSet(Arrays.asList(new Object[] {
        "Project", WATERMARK, "Union", "Expand", "BatchEvalPython", "ArrowEvalPython", "Repartition",
        "RepartitionByExpression", "RebalancePartitions", "CollectMetrics",
    }));
    /** Nodes that pass further columns on. */
    private static final HashSet CARRYING = new HashSet(Arrays.asList(new Object[] {
        WATERMARK, "BatchEvalPython", "ArrowEvalPython", "Repartition", "RepartitionByExpression",
        "RebalancePartitions", "CollectMetrics", "Filter", "Generate", "Join", "Sample",
    }));
    private static final HashSet STATEFUL = new HashSet(Arrays.asList(new Object[] {
        "Aggregate", "Deduplicate", "DeduplicateWithinWatermark", "FlatMapGroupsWithState",
        "FlatMapGroupsInPandasWithState", "TransformWithState", "TransformWithStateInPandas",
        "TransformWithStateInPySpark",
    }));

    /** Adds this rule to those of a session, in place of an earlier one. */
    public void addTo(ExperimentalMethods session) {
        List rules = listOf(this);
        Object[] others = toArray(session.extraOptimizations());
        for (int i = others.length - 1; i >= 0; i--) {
            if (!others[i].getClass().getName().equals(this.getClass().getName())) {
                rules = new $colon$colon(others[i], rules);
            }
        }
        session.extraOptimizations_$eq(rules);
    }

    /** Moves one counter, then sees to the clock; Spark applies the rule until it changes nothing. */
    public TreeNode apply(TreeNode plan) {
        LogicalPlan root = (LogicalPlan) plan;
        try {
            LogicalPlan placed = root.isStreaming() ? find(root, new ArrayList(), new ArrayList()) : null;
            return placed == null ? BatchClock.asText(root) : placed;
        } catch (Exception problem) {
            // The job comes first. What is read of the plan shows that the counter is not in its place.
            return root;
        } catch (LinkageError problem) { // a Spark with other classes
            return root;
        }
    }

    /** Looks for a counter that is to be moved; returns the root with it in its place, null where there is none. */
    private static LogicalPlan find(LogicalPlan node, ArrayList path, ArrayList turns) {
        path.add(node);
        LogicalPlan found = null;
        Alias counter = counterOf(node);
        if (counter != null && !counter.name().endsWith(BEHIND)) {
            found = move(path, turns, counter);
        }
        Object[] children = toArray(node.children());
        for (int i = 0; i < children.length && found == null; i++) {
            turns.add(Integer.valueOf(i));
            found = find((LogicalPlan) children[i], path, turns);
            turns.remove(turns.size() - 1);
        }
        path.remove(path.size() - 1);
        return found;
    }

    private static Alias counterOf(LogicalPlan node) {
        if (!(node instanceof Project)) {
            return null;
        }
        Object[] columns = toArray(((Project) node).projectList());
        Object last = columns.length == 0 ? null : columns[columns.length - 1];
        return last instanceof Alias && ((Alias) last).name().startsWith(TAP)
                && ((Alias) last).child().nodeName().equals(FUNCTION) ? (Alias) last : null;
    }

    /**
     * Moves a counter.
     *
     * @param path the nodes from the root down to its own
     * @param turns by node the number of the child that is next
     * @param counter the counter
     */
    private static LogicalPlan move(ArrayList path, ArrayList turns, Alias counter) {
        int own = path.size() - 1;
        int watermark = own - 1;
        while (watermark >= 0 && !nameOf(path, watermark).equals(WATERMARK)) {
            watermark--;
        }
        int operator = watermark - 1;
        while (operator >= 0 && !isStateful((LogicalPlan) path.get(operator))) {
            operator--;
        }
        if (operator < 0) {
            return null;
        }
        boolean lifted = false;
        for (int i = watermark + 1; i < own; i++) {
            lifted |= changesRows((LogicalPlan) path.get(i));
        }
        int last = -1; // to change the rows before they reach the operator
        for (int i = operator + 1; i < watermark && last < 0; i++) {
            Alias known = counterOf((LogicalPlan) path.get(i));
            if (known != null && known.name().equals(counter.name() + BEHIND)) {
                break;
            }
            last = changesRows((LogicalPlan) path.get(i)) ? i : -1;
        }
        if (!lifted && last < 0) {
            return null;
        }
        Carried carried = new Carried(counter, last >= 0);
        LogicalPlan made = carried.begin((Project) path.get(own), lifted);
        int end = last < 0 ? watermark + 1 : last;
        for (int i = own - 1; i >= end && made != null; i--) {
            LogicalPlan node = (LogicalPlan) path.get(i);
            made = carried.through(node, ((Integer) turns.get(i)).intValue(), made, lifted);
            if (made != null && lifted && i == watermark + 1) {
                made = carried.counted(node, made, counter.name(), counter.exprId(), false, last >= 0);
            }
            if (made != null && i == last) {
                made = carried.counted(
                        node, made, counter.name() + BEHIND, NamedExpression$.MODULE$.newExprId(), true, false);
            }
        }
        for (int i = end - 1; i >= 0 && made != null; i--) {
            made = withChild((LogicalPlan) path.get(i), ((Integer) turns.get(i)).intValue(), made);
        }
        return made;
    }

    private static Expression both(Expression one, Expression other) {
        return one == null ? other : other == null ? one : new And(one, other);
    }

    private static boolean isOurs(Attribute column) {
        return column.name().startsWith(TAP) || column.name().startsWith("__tidemark_");
    }

    private static String nameOf(ArrayList path, int i) {
        return ((LogicalPlan) path.get(i)).nodeName();
    }

    private static boolean isStateful(LogicalPlan node) {
        if (!node.nodeName().equals("Join")) {
            return STATEFUL.contains(node.nodeName());
        }
        Object[] sides = toArray(node.children());
        return ((LogicalPlan) sides[0]).isStreaming() && ((LogicalPlan) sides[1]).isStreaming();
    }

    /** Returns whether a node may drop or multiply rows; as {@code placement.py} says. */
    private static boolean changesRows(LogicalPlan node) {
        return node instanceof Filter ? dropsRows(((Filter) node).condition()) : !PASSING.contains(node.nodeName());
    }

    private static boolean dropsRows(Expression condition) {
        if (condition instanceof And) {
            return dropsRows(((And) condition).left()) || dropsRows(((And) condition).right());
        }
        Object[] columns = toArray(condition.references().toSeq());
        boolean timed = columns.length > 0;
        boolean windowed = false;
        for (int i = 0; i < columns.length; i++) {
            Attribute column = (Attribute) columns[i];
            if (isOurs(column)) {
                return false;
            }
            timed &= column.metadata().contains(DELAY);
            windowed |= column.metadata().contains(WINDOW);
        }
        String kind = condition.nodeName();
        boolean ofWindows = windowed && columns.length > 1
                && (kind.equals("GreaterThanOrEqual") || kind.equals("LessThan"));
        return !(timed && (kind.equals("IsNotNull") || ofWindows));
    }

    /** What is passed up from where a counter stood. */
    private static final class Carried {
        private final Alias counter;
        private final Object[] arguments;
        /** The columns with arguments that are computed. */
        private List columns = nothing();
        private List aliases = nothing();

        Carried(Alias counter, boolean followed) {
            this.arguments = toArray(counter.child().children());
            if (followed) {
                this.arguments[0] = new BitwiseOr((Expression) this.arguments[0], FOLLOWED);
            }
            this.counter = alias(
                    (Expression) counter.child().withNewChildren(joined(this.arguments, nothing())), counter.name(),
                    counter.exprId());
            for (int i = this.arguments.length - 1; i > 0; i--) {
                if (!(this.arguments[i] instanceof Literal)) {
                    Alias alias = alias(
                            (Expression) this.arguments[i], ARGUMENT + i, NamedExpression$.MODULE$.newExprId());
                    this.arguments[i] = alias.toAttribute();
                    this.aliases = new $colon$colon(alias, this.aliases);
                    this.columns = new $colon$colon(this.arguments[i], this.columns);
                }
            }
        }

        LogicalPlan begin(Project own, boolean lifted) {
            Object[] listed = toArray(own.projectList());
            List below = lifted ? this.aliases : joined(toArray(this.aliases), listOf(this.counter));
            Object[] others = new Object[listed.length - 1];
            System.arraycopy(listed, 0, others, 0, others.length);
            return new Project(joined(others, below), own.child());
        }

        /** Returns a node above a child with the columns; null where it passes none on. */
        LogicalPlan through(LogicalPlan node, int turn, LogicalPlan child, boolean lifted) {
            if (node instanceof Project) {
                return new Project(joined(toArray(((Project) node).projectList()), this.columns), child);
            }
            if (!CARRYING.contains(node.nodeName()) || isStateful(node)) {
                return null;
            }
            LogicalPlan made;
            if (lifted && node instanceof Filter) {
                Expression rest = this.without(((Filter) node).condition());
                made = rest == null ? child : new Filter(rest, child);
            } else {
                made = withChild(node, turn, child);
            }
            List wanted = this.outputOf(node, true);
            return sameColumns(made, wanted) ? made : new Project(wanted, made);
        }

        /** Returns a node's columns without the counter, with those that are passed up behind them. */
        private List outputOf(LogicalPlan node, boolean carrying) {
            Object[] columns = toArray(node.output());
            List wanted = carrying ? this.columns : nothing();
            for (int i = columns.length - 1; i >= 0; i--) {
                if (!((Attribute) columns[i]).exprId().equals(this.counter.exprId())) {
                    wanted = new $colon$colon(columns[i], wanted);
                }
            }
            return wanted;
        }

        private Expression without(Expression condition) {
            if (condition instanceof And) {
                return both(this.without(((And) condition).left()), this.without(((And) condition).right()));
            }
            Object[] columns = toArray(condition.references().toSeq()); // Spark asks also whether the counter is null
            boolean own = columns.length == 1
                    && ((Attribute) columns[0]).exprId().equals(this.counter.exprId());
            return own ? null : condition;
        }

        /** Returns rows, as they come from a node, with a counter of them. */
        LogicalPlan counted(
                LogicalPlan node, LogicalPlan rows, String name, ExprId id, boolean behind, boolean carrying) {
            Object[] arguments = (Object[]) this.arguments.clone();
            if (behind) {
                arguments[0] = new BitwiseNot((Expression) arguments[0]);
            }
            Expression function = (Expression) this.counter.child().withNewChildren(joined(arguments, nothing()));
            Alias counted = alias(function, name, id);
            LogicalPlan made = new Project(joined(toArray(rows.output()), listOf(counted)), rows);
            return new Project(this.outputOf(node, carrying), new Filter(counted.toAttribute(), made));
        }
    }

    private static boolean sameColumns(LogicalPlan node, List wanted) {
        Object[] columns = toArray(node.output());
        Object[] others = toArray(wanted);
        boolean same = columns.length == others.length;
        for (int i = 0; i < columns.length && same; i++) {
            same = ((Attribute) columns[i]).exprId().equals(((Attribute) others[i]).exprId());
        }
        return same;
    }

    private static LogicalPlan withChild(LogicalPlan node, int turn, LogicalPlan child) {
        Object[] children = toArray(node.children());
        children[turn] = child;
        return (LogicalPlan) node.withNewChildren(joined(children, nothing()));
    }

    private static Alias alias(Expression expression, String name, ExprId id) {
        return new Alias(expression, name, id, nothing(), Option.empty(), nothing());
    }

    private static List nothing() {
        return Nil$.MODULE$;
    }

    private static List listOf(Object item) {
        return new $colon$colon(item, nothing());
    }

    private static List joined(Object[] items, List more) {
        List list = more;
        for (int i = items.length - 1; i >= 0; i--) {
            list = new $colon$colon(items[i], list);
        }
        return list;
    }

    private static Object[] toArray(Seq items) {
        ArrayList list = new ArrayList();
        Iterator each = items.iterator();
        while (each.hasNext()) {
            list.add(each.next());
        }
        return list.toArray();
    }
}
