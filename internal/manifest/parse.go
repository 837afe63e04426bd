package manifest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"

	crvalidation "k8s.io/apiextensions-apiserver/pkg/apiserver/validation"

	"github.com/retryqueue/retryqueue/api/v1alpha1"
)

// MaxSize is how large a manifest may be, in bytes; a ConfigMap cannot hold more.
const MaxSize = 1 << 20

// Parse reads one RetryQueue from YAML or JSON, fills in the CRD's defaults and holds it to the CRD's schema
// and CEL rules, as the API server would on creation; unknown and repeated fields are errors too. A status is
// ignored. The error is an [*InvalidError], unless the embedded CRD itself is broken.
func Parse(data []byte) (*v1alpha1.RetryQueue, error) {
	r, err := retryQueueRules()
	if err != nil {
		return nil, err
	}
	obj, err := decode(data)
	if err != nil {
		return nil, err
	}
	if err := checkKind(obj); err != nil {
		return nil, err
	}
	delete(obj, "status")
	var p problems
	named := p.checkMetadata(obj)
	p.checkFields(obj, r)
	defaulting.PruneNonNullableNullsWithoutDefaults(obj, r.structural)
	defaulting.Default(obj, r.structural)
	p.checkValues(obj, r, named)
	if err := p.err(); err != nil {
		return nil, err
	}
	rq := &v1alpha1.RetryQueue{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj, rq); err != nil {
		return nil, invalid("", "cannot be read as a RetryQueue: %v", err)
	}
	return rq, nil
}

// decode reads the only document of data.
func decode(data []byte) (map[string]any, error) {
	if len(data) > MaxSize {
		return nil, invalid("", "the manifest must be at most %d bytes, is %d", MaxSize, len(data))
	}
	doc, err := only(data)
	if err != nil {
		return nil, err
	}
	asJSON, err := yaml.YAMLToJSONStrict(doc)
	if err != nil {
		return nil, invalid("", "must be well-formed YAML or JSON: %v", strings.TrimPrefix(err.Error(), "yaml: "))
	}
	var obj map[string]any
	if err := json.Unmarshal(asJSON, &obj); err != nil || obj == nil {
		return nil, invalid("", "must be one object with apiVersion, kind, metadata and spec")
	}
	return obj, nil
}

// only returns the document of a stream that is not empty, and refuses a second one: it would be ignored.
func only(data []byte) ([]byte, error) {
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	var found []byte
	for {
		doc, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, invalid("", "must be well-formed YAML or JSON: %v", err)
		}
		var content any
		if err := yaml.Unmarshal(doc, &content); err == nil && content == nil {
			continue // nothing but comments
		}
		if found != nil {
			return nil, invalid("", "must hold one document; put the other one into a file of its own")
		}
		found = doc
	}
	if found == nil {
		return nil, invalid("", "is empty; write a RetryQueue into it")
	}
	return found, nil
}

func checkKind(obj map[string]any) error {
	var p problems
	for _, want := range []struct{ path, value string }{
		{"apiVersion", v1alpha1.GroupVersion.String()}, {"kind", "RetryQueue"},
	} {
		switch got := obj[want.path].(type) {
		case nil:
			p.add(want.path, "must be set to %s", want.value)
		case string:
			if got != want.value {
				p.add(want.path, "must be %s (is %q)", want.value, got)
			}
		default:
			p.add(want.path, "must be the string %s", want.value)
		}
	}
	if _, ok := obj["metadata"].(map[string]any); !ok {
		p.add("metadata", "must be an object with a name")
	}
	if spec, ok := obj["spec"]; ok {
		if _, ok := spec.(map[string]any); !ok {
			p.add("spec", "must be an object")
		}
	}
	return p.err()
}

// checkMetadata says whether the object has metadata with a name, which the rules speak of.
func (p *problems) checkMetadata(obj map[string]any) bool {
	meta, _, unknown, err := objectmeta.GetObjectMetaWithOptions(obj, objectmeta.ObjectMetaOptions{ReturnUnknownFieldPaths: true})
	if err != nil {
		p.add("metadata", "cannot be read: %v", err)
		return false
	}
	for _, path := range unknown {
		p.add(path, "is no field of an object's metadata; remove it or correct its name")
	}
	if meta.Name == "" {
		p.add("metadata.name", "must be set")
		return false
	}
	inNamespace := meta.Namespace != "" // a manifest on a laptop may do without
	p.addFieldErrors(apivalidation.ValidateObjectMeta(meta, inNamespace, ruledByCRD, field.NewPath("metadata")))
	return true
}

// ruledByCRD checks no name: the CRD has a stricter rule, with a better message.
func ruledByCRD(string, bool) []string { return nil }

// checkFields refuses fields that the schema does not know, and removes them.
func (p *problems) checkFields(obj map[string]any, r *rules) {
	track := schema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}
	for _, path := range pruning.PruneWithOptions(obj, r.structural, true, track) {
		p.add(path, "is no field of a RetryQueue; remove it or correct its name")
	}
}

// checkValues holds obj to the schema, then, as far as the schema lets the rules read it, to the CEL rules.
func (p *problems) checkValues(obj map[string]any, r *rules, named bool) {
	errs := crvalidation.ValidateCustomResource(nil, obj, r.schema)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, r.structural, obj)...)
	if named && !blocking(errs) {
		broken, _ := r.cel.Validate(context.Background(), nil, r.structural, obj, nil, celconfig.RuntimeCELCostBudget)
		errs = append(errs, broken...)
	}
	p.addFieldErrors(errs)
}

// blocking says that CEL rules cannot be evaluated on what is that wrong.
func blocking(errs field.ErrorList) bool {
	for _, e := range errs {
		switch e.Type {
		case field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid:
			return true
		}
	}
	return false
}
