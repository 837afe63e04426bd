package manifest

import (
	"fmt"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"

	"github.com/retryqueue/retryqueue/api/v1alpha1"
	"github.com/retryqueue/retryqueue/config/crd"
)

// rules are what the API server makes of a CustomResourceDefinition.
type rules struct {
	structural *schema.Structural
	schema     validation.SchemaValidator
	cel        *cel.Validator
}

// retryQueueRules compiles the embedded CRD once: it takes some tens of milliseconds, most of it for CEL.
var retryQueueRules = sync.OnceValues(func() (*rules, error) {
	data, err := crd.Files.ReadFile("retryqueue.dev_retryqueues.yaml")
	if err != nil {
		return nil, fmt.Errorf("reading the embedded CRD: %w", err)
	}
	return compile(data)
})

func compile(data []byte) (*rules, error) {
	var def apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(data, &def); err != nil {
		return nil, fmt.Errorf("reading the embedded CRD: %w", err)
	}
	for _, v := range def.Spec.Versions {
		if v.Name != v1alpha1.GroupVersion.Version {
			continue
		}
		var internal apiextensions.JSONSchemaProps
		if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(v.Schema.OpenAPIV3Schema, &internal, nil); err != nil {
			return nil, fmt.Errorf("converting the embedded CRD: %w", err)
		}
		return compileSchema(&internal)
	}
	return nil, fmt.Errorf("the embedded CRD has no version %s", v1alpha1.GroupVersion.Version)
}

func compileSchema(props *apiextensions.JSONSchemaProps) (*rules, error) {
	structural, err := schema.NewStructural(props)
	if err != nil {
		return nil, fmt.Errorf("reading the schema of the embedded CRD: %w", err)
	}
	if err := defaulting.PruneDefaults(structural); err != nil {
		return nil, fmt.Errorf("pruning the defaults of the embedded CRD: %w", err)
	}
	openapi, _, err := validation.NewSchemaValidator(props)
	if err != nil {
		return nil, fmt.Errorf("compiling the schema of the embedded CRD: %w", err)
	}
	return &rules{
		structural: structural,
		schema:     openapi,
		cel:        cel.NewValidator(structural, true, celconfig.PerCallLimit),
	}, nil
}
