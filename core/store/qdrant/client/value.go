package client

import (
	pb "github.com/qdrant/go-client/qdrant"
)

// Plain converts a payload value to the values of encoding/json.
func Plain(v *pb.Value) any {
	switch k := v.GetKind().(type) {
	case *pb.Value_StructValue:
		out := map[string]any{}
		for name, field := range k.StructValue.GetFields() {
			out[name] = Plain(field)
		}
		return out
	case *pb.Value_ListValue:
		out := []any{}
		for _, item := range k.ListValue.GetValues() {
			out = append(out, Plain(item))
		}
		return out
	case *pb.Value_StringValue:
		return k.StringValue
	case *pb.Value_BoolValue:
		return k.BoolValue
	case *pb.Value_IntegerValue:
		return k.IntegerValue
	case *pb.Value_DoubleValue:
		return k.DoubleValue
	}
	return nil
}

// Texts are the texts of a list.
func Texts(v *pb.Value) []string {
	values := v.GetListValue().GetValues()
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = v.GetStringValue()
	}
	return out
}
