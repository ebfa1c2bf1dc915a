// SPDX-License-Identifier: Apache-2.0

package parity

import (
	"embed"
	"io/fs"
	"strings"
	"testing"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/apis/flowcontrol"
	"k8s.io/kubernetes/pkg/apis/flowcontrol/install"
	"k8s.io/kubernetes/pkg/apis/flowcontrol/validation"

	"everynode.dev/everynode/config"
)

// TestFlowControlIsValid: an API server takes the flow schemas and the priority levels that are shipped.
func TestFlowControlIsValid(t *testing.T) {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDecoder(flowcontrol.SchemeGroupVersion)
	for file, from := range map[string]embed.FS{"install/20-flow-control.yaml": config.Install, "agent/15-flow-control.yaml": config.Agent} {
		data, err := fs.ReadFile(from, file)
		if err != nil {
			t.Fatal(err)
		}
		for document := range strings.SplitSeq(string(data), "\n---\n") {
			obj, _, err := decoder.Decode([]byte(document), nil, nil)
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			var errs field.ErrorList
			switch o := obj.(type) {
			case *flowcontrol.FlowSchema:
				errs = validation.ValidateFlowSchema(o)
			case *flowcontrol.PriorityLevelConfiguration:
				errs = validation.ValidatePriorityLevelConfiguration(o, flowcontrolv1.SchemeGroupVersion, validation.PriorityLevelValidationOptions{})
			default:
				t.Fatalf("%s holds a %T", file, obj)
			}
			if len(errs) > 0 {
				t.Errorf("%s: %v\n%s", file, errs.ToAggregate(), document)
			}
		}
	}
}
