package workerapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
)

// mistyped names the field that has another JSON type than it must have, and says which; "" when err says
// something else. The decoder's own words are about Go.
func mistyped(err error) (field, detail string) {
	e, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok || e.Field == "" {
		return "", ""
	}
	return e.Field, fmt.Sprintf("must be %s, not %s", jsonType(e.Type), e.Value)
}

func jsonType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return jsonType(t.Elem())
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return "a whole number within bounds"
	case reflect.Slice, reflect.Array:
		return "a list"
	}
	return "an object"
}
