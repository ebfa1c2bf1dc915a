// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"io/fs"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	internal "k8s.io/kubernetes/pkg/apis/admissionregistration"
	"k8s.io/kubernetes/pkg/apis/admissionregistration/install"
	"k8s.io/kubernetes/pkg/apis/admissionregistration/validation"

	"everynode.dev/everynode/config"
)

// namespace is where the objects of these tests are.
const namespace = "team"

// policies are the policies and their bindings that are shipped, by the name of their file.
func policies(t *testing.T) map[string][]runtime.Object {
	t.Helper()
	strict := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	all := map[string][]runtime.Object{}
	for _, from := range []fs.FS{config.Install, config.Manager, config.Kruise, config.Policy, config.Dialects, config.Agent} {
		err := fs.WalkDir(from, ".", func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			data, err := fs.ReadFile(from, name)
			if err != nil {
				return err
			}
			for document := range strings.SplitSeq(string(data), "\n---\n") {
				if !strings.Contains(document, "\nkind: ValidatingAdmissionPolicy") {
					continue
				}
				object, _, err := strict.Decode([]byte(document), nil, nil)
				if err != nil {
					return err
				}
				all[name] = append(all[name], object)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// TestPoliciesAreValid: an API server takes them, which compiles what is written in CEL.
func TestPoliciesAreValid(t *testing.T) {
	inside := runtime.NewScheme()
	install.Install(inside)
	for file, objects := range policies(t) {
		bound := map[string]bool{}
		for _, object := range objects {
			inside.Default(object)
			switch o := object.(type) {
			case *admissionv1.ValidatingAdmissionPolicy:
				p := internal.ValidatingAdmissionPolicy{}
				if err := inside.Convert(o, &p, nil); err != nil {
					t.Fatal(err)
				}
				if errs := validation.ValidateValidatingAdmissionPolicy(&p); len(errs) > 0 {
					t.Errorf("%s: %v", file, errs.ToAggregate())
				}
				bound[p.Name] = bound[p.Name] || false
			case *admissionv1.ValidatingAdmissionPolicyBinding:
				b := internal.ValidatingAdmissionPolicyBinding{}
				if err := inside.Convert(o, &b, nil); err != nil {
					t.Fatal(err)
				}
				if errs := validation.ValidateValidatingAdmissionPolicyBinding(&b); len(errs) > 0 {
					t.Errorf("%s: %v", file, errs.ToAggregate())
				}
				bound[b.Spec.PolicyName] = true
			}
		}
		for name, is := range bound {
			if !is {
				t.Errorf("%s: nothing binds the policy %s, so it does nothing", file, name)
			}
		}
	}
}

// judge is the part of an API server that keeps policies, with those that are shipped.
type judge struct{ plugin *validating.Plugin }

func newJudge(t *testing.T) judge {
	t.Helper()
	objects := []runtime.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}}
	for _, some := range policies(t) {
		objects = append(objects, some...)
	}
	inside := runtime.NewScheme()
	install.Install(inside)
	for _, object := range objects {
		inside.Default(object)
	}
	plugin, err := validating.NewPlugin(nil)
	if err != nil {
		t.Fatal(err)
	}
	client := fake.NewClientset(objects...)
	factory := informers.NewSharedInformerFactory(client, 0)
	plugin.SetDrainedNotification(t.Context().Done())
	plugin.SetExternalKubeClientSet(client)
	plugin.SetDynamicClient(dynamicfake.NewSimpleDynamicClient(scheme.Scheme))
	plugin.SetExternalKubeInformerFactory(factory)
	plugin.SetUnconditionalAuthorizer(authorizerfactory.NewAlwaysAllowAuthorizer())
	plugin.SetRESTMapper(meta.NewDefaultRESTMapper(nil))
	if err := plugin.ValidateInitialization(); err != nil {
		t.Fatal(err)
	}
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())
	if !plugin.WaitForReady() {
		t.Fatal("the policies are not read in")
	}
	return judge{plugin}
}

// question is a request that an API server has been sent. With neither of the objects it is about many.
type question struct {
	who         user.Info
	operation   admission.Operation
	resource    schema.GroupVersionResource
	subresource string
	kind        string
	before, now runtime.Object
	// nameless is how one of many that are deleted at once is asked about.
	nameless bool
}

// ask returns why the request is refused, or nil.
func (j judge) ask(t *testing.T, q question) error {
	t.Helper()
	name := ""
	for _, o := range []runtime.Object{q.before, q.now} {
		if o == nil {
			continue
		}
		m, err := meta.Accessor(o)
		if err != nil {
			t.Fatal(err)
		}
		name = m.GetName()
	}
	if q.nameless {
		name = ""
	}
	if q.who == nil {
		q.who = &user.DefaultInfo{Name: "ann", Groups: []string{"system:masters"}}
	}
	var options runtime.Object = &metav1.DeleteOptions{}
	switch q.operation {
	case admission.Create:
		options = &metav1.CreateOptions{}
	case admission.Update:
		options = &metav1.UpdateOptions{}
	}
	attributes := admission.NewAttributesRecord(q.now, q.before, q.resource.GroupVersion().WithKind(q.kind), namespace, name,
		q.resource, q.subresource, q.operation, options, false, q.who)
	return j.plugin.Validate(t.Context(), attributes, admission.NewObjectInterfacesFromScheme(scheme.Scheme))
}
