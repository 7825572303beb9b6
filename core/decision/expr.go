package decision

import (
	"fmt"
	"math"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

// Bounds of one condition. A cost unit is about one variable access or
// comparison; the shipped conditions cost under 20.
const (
	maxConditionLength = 4096 // characters
	maxConditionCost   = 10_000
	// Sizes of facts that the cost estimate at load assumes. At run time
	// maxConditionCost stops conditions on larger facts.
	assumedStringLength = 1024
	assumedItems        = 64
)

// conditionEnv is the CEL environment of all conditions. The first Compile
// creates it, and it never changes.
var conditionEnv = sync.OnceValues(newConditionEnv)

func newConditionEnv() (*cel.Env, error) {
	named := types.ParseStructTag("json")
	env, err := cel.NewCustomEnv(
		cel.StdLib(),
		cel.Types(
			cel.NativeTypeFor[ChallengeFacts](named),
			cel.NativeTypeFor[StepFacts](named),
			cel.NativeTypeFor[ProtocolFacts](named),
			cel.NativeTypeFor[RunFacts](named),
			cel.NativeTypeFor[ClientFacts](named),
			cel.NativeTypeFor[CallerFacts](named),
			cel.NativeTypeFor[ElicitationFacts](named),
			cel.NativeTypeFor[SolutionFacts](named),
			cel.NativeTypeFor[PreviousFacts](named),
			cel.NativeTypeFor[ConfigFacts](named),
			cel.NativeTypeFor[UserInputFacts](named),
		),
		cel.Variable("challenge", cel.ObjectType("decision.ChallengeFacts")),
		cel.Variable("step", cel.ObjectType("decision.StepFacts")),
		cel.Variable("protocol", cel.ObjectType("decision.ProtocolFacts")),
		cel.Variable("run", cel.ObjectType("decision.RunFacts")),
		cel.Variable("client", cel.ObjectType("decision.ClientFacts")),
		cel.Variable("caller", cel.ObjectType("decision.CallerFacts")),
		cel.Variable("solution", cel.ObjectType("decision.SolutionFacts")),
		cel.Variable("previous", cel.ListType(cel.ObjectType("decision.PreviousFacts"))),
		cel.Variable("config", cel.ObjectType("decision.ConfigFacts")),
		// JSON numbers are doubles, literals in conditions mostly integers.
		cel.CrossTypeNumericComparisons(true),
		cel.ParserExpressionSizeLimit(maxConditionLength),
		cel.ParserRecursionLimit(50),
	)
	if err != nil {
		return nil, fmt.Errorf("create the CEL environment: %w", err)
	}
	return env, nil
}

// condition is a compiled `when`. A nil condition is always true.
type condition struct {
	source  string
	program cel.Program
	looksAt []factPath
	spaces  []string // with which it compares protocol.space
}

// conditionError is a problem at a position inside the expression.
type conditionError struct {
	line, column int // 1-based line, 0-based column
	message      string
}

// compileCondition returns nil without errors for the literal `true`.
func compileCondition(source string) (*condition, []conditionError) {
	env, err := conditionEnv()
	if err != nil {
		return nil, []conditionError{{line: 1, message: err.Error()}}
	}
	checked, issues := env.Compile(source)
	if issues.Err() != nil {
		var errs []conditionError
		for _, e := range issues.Errors() {
			errs = append(errs, conditionError{
				line: max(e.Location.Line(), 1), column: max(e.Location.Column(), 0),
				message: explainUndefined(e.Message),
			})
		}
		return nil, errs
	}
	switch checked.OutputType() {
	case cel.BoolType:
	case cel.DynType:
		return nil, []conditionError{{line: 1, message: "a condition must be true or false, this may be anything: add == true"}}
	default:
		return nil, []conditionError{{line: 1, message: fmt.Sprintf(
			"a condition must be true or false, this is of type %s", cel.FormatCELType(checked.OutputType()))}}
	}
	if isLiteralTrue(checked) {
		return nil, nil
	}
	program, err := planCondition(env, checked)
	if err != nil {
		return nil, []conditionError{{line: 1, message: err.Error()}}
	}
	return &condition{source: source, program: program, looksAt: pathsIn(checked.NativeRep().Expr()), spaces: spacesIn(checked.NativeRep().Expr())}, nil
}

func isLiteralTrue(checked *cel.Ast) bool {
	root := checked.NativeRep().Expr()
	return root.Kind() == ast.LiteralKind && root.AsLiteral() == types.True
}

// planCondition rejects a condition that costs too much on facts of the assumed
// sizes. It counts cost at run time only if larger facts can exceed the limit,
// because counting costs more than most conditions.
func planCondition(env *cel.Env, checked *cel.Ast) (cel.Program, error) {
	assumed, err := env.EstimateCost(checked, sizes{stringLength: assumedStringLength, items: assumedItems})
	if err != nil {
		return nil, fmt.Errorf("estimate the cost: %w", err)
	}
	if assumed.Max > maxConditionCost {
		return nil, fmt.Errorf("the condition may cost %s units; the limit is %d (for strings of %d characters and lists of %d items)",
			formatCost(assumed.Max), maxConditionCost, assumedStringLength, assumedItems)
	}
	worst, err := env.EstimateCost(checked, sizes{stringLength: math.MaxUint32, items: math.MaxUint32})
	if err != nil {
		return nil, fmt.Errorf("estimate the cost: %w", err)
	}
	options := []cel.ProgramOption{cel.EvalOptions(cel.OptOptimize)}
	if worst.Max > maxConditionCost {
		options = append(options, cel.CostLimit(maxConditionCost))
	}
	return env.Program(checked, options...)
}

func formatCost(c uint64) string {
	if c == math.MaxUint64 {
		return "unbounded"
	}
	return fmt.Sprint(c)
}

// sizes tells the cost estimate how large facts are.
type sizes struct{ stringLength, items uint64 }

func (s sizes) EstimateSize(node cost.AstNode) *cost.SizeEstimate {
	switch node.Type().Kind() {
	case types.StringKind, types.BytesKind, types.DynKind:
		return &cost.SizeEstimate{Max: s.stringLength}
	case types.ListKind, types.MapKind:
		return &cost.SizeEstimate{Max: s.items}
	}
	return nil
}

func (s sizes) EstimateCallCost(string, string, *cost.AstNode, []cost.AstNode) *cost.CallEstimate {
	return nil
}

// holds evaluates the condition; an error counts as false.
func (c *condition) holds(facts *bindings) (bool, error) {
	if c == nil {
		return true, nil
	}
	value, _, err := c.program.Eval(facts)
	if err != nil {
		return false, err
	}
	return value == types.True, nil
}

// bindings provides facts to conditions and converts each at most once.
type bindings struct {
	facts   *Facts
	adapter types.Adapter
	values  [9]ref.Val
}

func (b *bindings) Parent() cel.Activation { return nil }

func (b *bindings) ResolveName(name string) (any, bool) {
	switch name {
	case "challenge":
		return b.value(0, &b.facts.Challenge), true
	case "step":
		return b.value(1, &b.facts.Step), true
	case "run":
		return b.value(2, &b.facts.Run), true
	case "client":
		return b.value(3, &b.facts.Client), true
	case "solution":
		return b.value(4, &b.facts.Solution), true
	case "previous":
		return b.value(5, b.facts.Previous), true
	case "config":
		return b.value(6, &b.facts.Config), true
	case "protocol":
		return b.value(7, &b.facts.Protocol), true
	case "caller":
		return b.value(8, &b.facts.Caller), true
	}
	return nil, false
}

func (b *bindings) value(slot int, fact any) ref.Val {
	if b.values[slot] == nil {
		b.values[slot] = b.adapter.NativeToValue(fact)
	}
	return b.values[slot]
}
