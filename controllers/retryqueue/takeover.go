package retryqueue

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/csaupgrade"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// takeOver makes us the owner of what others added to an object's spec or data (a container, a key), so that the
// apply that follows takes it out again. Applying alone mends only fields that we set ourselves.
func (p *pass) takeOver(ctx context.Context, kind schema.GroupVersionKind, have client.Object) error {
	strangers := sets.New[string]()
	o := have.DeepCopyObject().(client.Object)
	fields := o.GetManagedFields()
	for i, f := range fields {
		if f.Manager != FieldOwner && f.Subresource == "" && meddles(f) {
			strangers.Insert(f.Manager)
			fields[i].Operation = metav1.ManagedFieldsOperationUpdate // whichever way they came
		}
	}
	if strangers.Len() == 0 {
		return nil
	}
	o.SetManagedFields(fields)
	patch, err := csaupgrade.UpgradeManagedFieldsPatch(o, strangers, FieldOwner)
	if err != nil || patch == nil {
		return err
	}
	meta := &metav1.PartialObjectMetadata{}
	meta.SetGroupVersionKind(kind)
	meta.Name, meta.Namespace = have.GetName(), have.GetNamespace()
	if err := p.client.Patch(ctx, meta, client.RawPatch(types.JSONPatchType, patch), client.FieldOwner(FieldOwner)); err != nil {
		return fmt.Errorf("changing the owner of fields: %w", err)
	}
	return nil
}

// meddles says that an entry owns more than metadata and what `kubectl rollout restart` leaves in a template.
func meddles(f metav1.ManagedFieldsEntry) bool {
	if f.FieldsV1 == nil {
		return false
	}
	var owned map[string]any
	if err := json.Unmarshal(f.FieldsV1.GetRawBytes(), &owned); err != nil {
		return false
	}
	delete(owned, "f:metadata")
	delete(owned, "f:status")
	if spec, ok := owned["f:spec"].(map[string]any); ok {
		if template, ok := spec["f:template"].(map[string]any); ok {
			if meta, ok := template["f:metadata"].(map[string]any); ok {
				delete(meta, "f:annotations")
			}
		}
	}
	return holds(owned)
}

// holds says that there is a field in a tree of fields.
func holds(tree map[string]any) bool {
	for name, v := range tree {
		below, ok := v.(map[string]any)
		if name != "." && (!ok || len(below) == 0 || holds(below)) {
			return true
		}
	}
	return false
}
