// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	crwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/internal/webhook/certs"
)

// The paths of the webhooks. All but the last two are those of OpenKruise.
const (
	PathMutate            = "/mutate-apps-kruise-io-daemonset"
	PathValidate          = "/validate-apps-kruise-io-daemonset"
	PathMutateJob         = "/mutate-apps-kruise-io-imagepulljob"
	PathValidateJob       = "/validate-apps-kruise-io-imagepulljob"
	PathMutateNodeImage   = "/mutate-apps-kruise-io-nodeimage"
	PathValidateNodeImage = "/validate-apps-kruise-io-nodeimage"
	PathEvictions         = "/keep-daemon-pods"
	PathConvert           = "/convert"
)

// The names of the webhooks, which are those of OpenKruise where it has them, and of the objects in config/kruise.
const (
	MutatingName            = "mdaemonset.kb.io"
	ValidatingName          = "vdaemonset.kb.io"
	MutatingJobName         = "mimagepulljob.kb.io"
	ValidatingJobName       = "vimagepulljob.kb.io"
	MutatingNodeImageName   = "mnodeimage.kb.io"
	ValidatingNodeImageName = "vnodeimage.kb.io"
	EvictionsName           = "keep-daemon-pods.everynode.dev"

	MutatingConfiguration   = "everynode-mutating"
	ValidatingConfiguration = "everynode-validating"
	ServiceName             = "everynode-webhook"
	SecretName              = "everynode-webhook-certs"
)

// Mode is how the API server reaches the webhooks.
type Mode string

// The modes.
const (
	ModeService Mode = "service" // through a Service in the cluster
	ModeURL     Mode = "url"     // at a URL, for a manager outside of the cluster
)

// Options are the settings of the webhooks.
type Options struct {
	Mode Mode
	// URL is the address of this manager for the API server, as https://host:port; for ModeURL.
	URL string
	// Service is the name of the Service in Namespace; for ModeService. The default is ServiceName.
	Service string
	// Namespace is the namespace of the Service and of the Secret with the certificate.
	Namespace string
	// CertDir contains tls.crt, tls.key and, unless the API server trusts the certificate without it, ca.crt. Another
	// program renews them. If empty, the manager creates and renews its certificate.
	CertDir string
	// Host and Port are the address to listen on; the default is all addresses and port 9443.
	Host string
	Port int
}

// servicePort is the port of the Service; the API server sets the same default, which must not look like a change.
const servicePort = 443

// serviceNames returns the DNS names of a Service.
func serviceNames(service, namespace string) []string {
	name := service + "." + namespace
	return []string{name + ".svc", name, name + ".svc.cluster.local"}
}

// check sets defaults, and returns the names for the certificate.
func (o *Options) check() (names []string, err error) {
	if o.Namespace == "" {
		return nil, errors.New("webhooks: no namespace for the certificate: give one")
	}
	if o.Service == "" {
		o.Service = ServiceName
	}
	switch o.Mode {
	case ModeService:
		return serviceNames(o.Service, o.Namespace), nil
	case ModeURL:
		u, err := url.Parse(o.URL)
		if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
			return nil, fmt.Errorf("webhooks: %q is not a URL under which the API server can reach this manager: write https://host:port", o.URL)
		}
		return []string{u.Hostname()}, nil
	default:
		return nil, fmt.Errorf("webhooks: unknown mode %q: write %s or %s", o.Mode, ModeService, ModeURL)
	}
}

// Setup adds to a manager the server of the webhooks, its certificate, and the publisher of both. It returns a function that reports when the certificate
// expires.
func Setup(mgr manager.Manager, o Options) (Ends, error) {
	names, err := o.check()
	if err != nil {
		return nil, err
	}
	config := rest.CopyConfig(mgr.GetConfig())
	config.WarningHandlerWithContext = Collecting{Otherwise: config.WarningHandlerWithContext}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("webhooks: making a client: %w", err)
	}
	dynamicClient, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("webhooks: making a client: %w", err)
	}
	publisher := o.publisher(client, dynamicClient)
	serverOptions := crwebhook.Options{Host: o.Host, Port: o.Port, CertDir: o.CertDir}
	errs := []error{}
	serves, ends := func() error { return nil }, endOfFile(o.CertDir)
	if o.CertDir == "" {
		keeper := &certs.Keeper{Client: client, Namespace: o.Namespace, Secret: SecretName, Names: names, Published: publisher.Published}
		serverOptions.TLSOpts = []func(*tls.Config){func(c *tls.Config) { c.GetCertificate = keeper.Certificate }}
		publisher.Bundle = keeper.Bundle
		serves = func() error { _, err := keeper.Certificate(nil); return err }
		ends = keeper.Ends
		errs = append(errs, mgr.Add(keeper))
	}
	server := newServer(serverOptions, &DryRun{Client: dynamicClient})
	server.Register(PathEvictions, &admission.Webhook{Handler: newEvictions(client.CoreV1(), dynamicClient), WithContextFunc: withSender})
	errs = append(errs, mgr.Add(server), mgr.Add(publisher), mgr.AddReadyzCheck("webhooks", startedWith(serves, server.StartedChecker())), mgr.AddReadyzCheck("published", publisher.Ready))
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("webhooks: %w", err)
	}
	return ends, nil
}

// startedWith returns a check that the server has started. It connects only after the server has a certificate; before,
// it would log a failed handshake.
func startedWith(serves func() error, started healthz.Checker) healthz.Checker {
	return func(r *http.Request) error {
		if err := serves(); err != nil {
			return err
		}
		return started(r)
	}
}

// newServer returns a server with all handlers.
func newServer(options crwebhook.Options, checker TemplateChecker) crwebhook.Server {
	server := crwebhook.NewServer(options)
	checker = newFairChecker(checker)
	server.Register(PathMutate, &admission.Webhook{Handler: &mutator{checker}, WithContextFunc: withSender})
	server.Register(PathValidate, &admission.Webhook{Handler: &validator{checker}, WithContextFunc: withSender})
	server.Register(PathMutateJob, &admission.Webhook{Handler: jobs().mutator()})
	server.Register(PathValidateJob, &admission.Webhook{Handler: jobs().validator()})
	server.Register(PathMutateNodeImage, &admission.Webhook{Handler: nodeImages().mutator()})
	server.Register(PathValidateNodeImage, &admission.Webhook{Handler: nodeImages().validator()})
	server.Register(PathConvert, newConverter())
	return server
}

func (o *Options) publisher(client kubernetes.Interface, dynamicClient dynamic.Interface) *certs.Publisher {
	p := &certs.Publisher{
		Client: client, Dynamic: dynamicClient, Bundle: o.bundle,
		Mutating: MutatingConfiguration, Validating: ValidatingConfiguration,
		Paths: map[string]string{
			MutatingName: PathMutate, ValidatingName: PathValidate,
			MutatingJobName: PathMutateJob, ValidatingJobName: PathValidateJob,
			MutatingNodeImageName: PathMutateNodeImage, ValidatingNodeImageName: PathValidateNodeImage,
			EvictionsName: PathEvictions,
		},
		CRDs: []string{kruise.Resource + "." + kruise.Group}, ConversionPath: PathConvert,
	}
	if o.Mode == ModeURL {
		p.URL = o.URL
		return p
	}
	port := int32(servicePort)
	p.Service = &admissionv1.ServiceReference{Namespace: o.Namespace, Name: o.Service, Port: &port}
	return p
}

// bundle reads the authorities of the certificate; without a file, the API server trusts it anyway.
func (o *Options) bundle() ([]byte, error) {
	data, err := os.ReadFile(filepath.Join(o.CertDir, "ca.crt"))
	if errors.Is(err, os.ErrNotExist) {
		return []byte{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the authority of the certificate: %w", err)
	}
	return data, nil
}
