// SPDX-License-Identifier: Apache-2.0

package arch

import "slices"

// zones is the table of docs/ARCHITECTURE.md, section "Import rules".
func zones() []Zone {
	return slices.Concat(coreZones(), pureZones(), sharedZones(), indexZones(), verbZones(), shellZones(), testZones(), agentZones(), mainZones(), otherZones())
}

// coreZones is tier 0: the decision itself.
func coreZones() []Zone {
	return []Zone{{
		Name:     "core",
		Packages: []string{"internal/rollout", "internal/agent/pull"},
		May: []string{
			"cmp", "errors", "fmt", "hash/fnv", "iter", "maps", "math", "math/bits", "slices", "sort", "strconv", "strings",
			"time", "unicode", "unicode/utf8",
		},
		Reason:  "the decision is a function of its snapshot: it runs in the manager, in a plan and in a simulator alike",
		Bans:    noClock,
		Pure:    true,
		MaxFunc: 40,
	}}
}

// pureZones is tier 1: everything that knows the API but neither a clock nor a cluster.
func pureZones() []Zone {
	return []Zone{{
		Name:     "names",
		Packages: []string{"api/..."},
		May:      slices.Concat(pureAPI, []string{"./api/..."}),
		Reason:   "others import these packages: whatever they need, everybody needs",
		Bans:     slices.Concat(noClock, noIO),
		Deep:     noClient,
	}, {
		Name:     "pure",
		Packages: []string{"internal/placement", "internal/podtemplate", "internal/revision"},
		May:      slices.Concat(pureAPI, []string{"./internal/rollout", "./internal/placement"}),
		Reason:   "what knows the API has to run without a cluster",
		Bans:     slices.Concat(noClock, noIO),
		Deep:     noClient,
	}, {
		Name:     "plan",
		Packages: []string{"internal/plan"},
		May:      []string{"cmp", "fmt", "slices", "time", "./internal/rollout"},
		Reason:   "a plan is played by the decision alone, so that it says the same wherever it is played",
		Bans:     noClock,
		Deep:     noClient,
	}, {
		Name:     "image pulls",
		Packages: []string{"internal/imagepull"},
		May:      slices.Concat(pureAPI, []string{"./api/...", "./internal/imageref"}),
		Reason:   "which node pulls next is a function of what is known, so that it can be tested without a cluster",
		Bans:     slices.Concat(noClock, noIO),
		Deep:     noClient,
	}, {
		Name:     "predownload",
		Packages: []string{"internal/predownload"},
		May:      slices.Concat(pureAPI, []string{"./api/...", "./internal/dialect", "./internal/podtemplate", "./internal/rollout"}),
		Reason:   "which images a roll needs is a function of what is known",
		Bans:     slices.Concat(noClock, noIO),
		Deep:     noClient,
	}, {
		Name:     "dialect",
		Packages: []string{"internal/dialect/..."},
		May: slices.Concat(pureAPI, []string{
			"./api/...", "./internal/rollout", "./internal/placement", "./internal/podtemplate", "./internal/revision",
			"./internal/dialect", "./internal/dialect/base",
		}),
		Reason: "a dialect translates; it must not lean on another dialect, or they drift together",
		Bans:   slices.Concat(noClock, noIO),
		Deep:   noClient,
	}, {
		Name:     "dialects",
		Packages: []string{"internal/dialects"},
		May:      slices.Concat(pureAPI, []string{"./api/...", "./internal/dialect", "./internal/dialect/..."}),
		Reason:   "a dialect is put together once, for the manager and for the command line",
		Bans:     slices.Concat(noClock, noIO),
		Deep:     noClient,
	}, {
		Name:     "admission",
		Packages: []string{"internal/webhook/conversion", "internal/webhook/defaulting", "internal/webhook/validation"},
		May:      slices.Concat(pureAPI, []string{"./api/...", "./internal/imageref", "./internal/placement"}),
		Reason:   "what is refused and what is filled in can be said without a cluster",
		Bans:     slices.Concat(noClock, noIO),
		Deep:     noClient,
	}}
}

// sharedZones are what the agent of a node has in common with the rest.
func sharedZones() []Zone {
	return []Zone{{
		Name:     "references",
		Packages: []string{"internal/imageref"},
		May:      []string{"crypto/sha256", "crypto/sha512", "fmt", "strings", "github.com/distribution/reference"},
		Reason:   "the manager and the agent of a node both read references of images, and must not disagree",
		Bans:     slices.Concat(noClock, noIO),
	}, {
		Name:     "one by one",
		Packages: []string{"internal/ota"},
		May:      []string{"k8s.io/api/core/v1", "./api/agent/v2", "./api/openyurt"},
		Reason:   "the API of a node and the command line must not disagree about who may be upgraded",
		Bans:     slices.Concat(noClock, noIO),
		Deep:     noClient,
	}}
}

// indexZones are the pure parts of the shells.
func indexZones() []Zone {
	return []Zone{{
		Name:     "fleet",
		Packages: []string{"internal/fleet"},
		May: slices.Concat(pureAPI, []string{
			"./api/...", "./internal/rollout", "./internal/placement", "./internal/revision", "./internal/dialect",
		}),
		Reason: "the index is fed with events, so that a simulator can feed it too",
		Bans:   slices.Concat(noClock, without(noIO, "sync")),
		Deep:   noClient,
	}, {
		Name:     "apply",
		Packages: []string{"internal/apply"},
		May:      slices.Concat(pureAPI, []string{"./internal/rollout", "./internal/fleet"}),
		Reason:   "what an answer means and what comes in which order is the same in a simulator",
		Bans:     slices.Concat(noClock, without(noIO, "context", "net", "net/http")), // for their errors and status codes
		Deep:     noClient,
	}}
}

// without returns the bans but those on the named things.
func without(bans []Ban, names ...string) []Ban {
	return slices.DeleteFunc(slices.Clone(bans), func(b Ban) bool { return slices.Contains(names, b.What) })
}

// client is what a tier 2 package may import: what tiers 0 and 1 may, the packages of these tiers, and a client.
func client(more ...string) []string {
	return slices.Concat(pureAPI, more, []string{
		"k8s.io/client-go/...", "sigs.k8s.io/controller-runtime/...", "k8s.io/component-base/...",
		"github.com/prometheus/client_golang/...", "github.com/go-logr/logr", "github.com/spf13/pflag", "github.com/spf13/cobra",
		"sigs.k8s.io/yaml",
		"./api/...", "./internal/rollout", "./internal/placement", "./internal/podtemplate", "./internal/revision",
		"./internal/dialect/...", "./internal/imagepull", "./internal/imageref", "./internal/predownload",
	})
}

// shellZones is tier 2: what talks to a cluster or to a person.
func shellZones() []Zone {
	return []Zone{{
		Name:     "feed",
		Packages: []string{"internal/fleet/feed"},
		May:      client("./internal/fleet"),
		Reason:   "the only reader: it knows nothing of who decides and who writes",
		Deep:     noKubernetes,
	}, {
		Name:     "executor",
		Packages: []string{"internal/apply/executor"},
		May:      client("./internal/apply", "./internal/fleet"),
		Reason:   "the only writer: it tells the index what was answered, and knows nothing of who decides",
		Deep:     noKubernetes,
	}, {
		Name:     "controller",
		Packages: []string{"internal/controller/..."},
		May:      client("./internal/fleet/...", "./internal/apply/...", "./internal/controller/...", "./internal/peers"),
		Reason:   "a controller ties reader, core and writer together, and nothing else",
		Deep:     noKubernetes,
	}, {
		Name:     "peers",
		Packages: []string{"internal/peers"},
		May:      client(),
		Reason:   "the manager and the command line must agree on which manager of another project is active",
		Deep:     noKubernetes,
	}, {
		Name:     "webhook",
		Packages: []string{"internal/webhook", "internal/webhook/certs"},
		May:      client("k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1", "./internal/webhook/..."),
		Reason:   "it serves what is pure over HTTPS, and knows nothing of the controllers",
		Deep:     noKubernetes,
	}, {
		Name:     "view",
		Packages: []string{"internal/cli/view"},
		May:      []string{"std", "golang.org/x/term", "./internal/rollout"},
		Reason:   "a picture is made from a snapshot and a plan, so that a golden file can hold it",
		Bans:     noClock,
		Deep:     noClient,
	}, {
		Name:     "live",
		Packages: []string{"internal/cli/live"},
		May:      client("./internal/fleet/..."),
		Reason:   "who looks on reads as the manager reads and decides as it decides, and cannot write",
		Deep:     noKubernetes,
	}, {
		Name:     "command line",
		Packages: []string{"internal/cli/..."},
		May: client("k8s.io/cli-runtime/...", "golang.org/x/term", "sigs.k8s.io/structured-merge-diff/v6/fieldpath",
			"./config", "./internal/apply", "./internal/fleet/...", "./internal/cli/...", "./internal/dialects", "./internal/features",
			"./internal/ota", "./internal/peers", "./internal/rights"),
		Reason: "a verb is made of what the manager decides with, and talks to the cluster with the rights of who calls",
		Deep:   noKubernetes,
	}}
}

// testZones is what no program contains.
func testZones() []Zone {
	return []Zone{{
		Name:     "fake cluster",
		Packages: []string{"internal/testing/..."},
		May:      client("k8s.io/cli-runtime/...", "golang.org/x/sys/unix", "./internal/cli/options"),
		Reason:   "it is for tests alone: no zone of the product may import internal/testing, and it knows none of the verbs",
		Tests:    true,
	}, {
		Name:     "simulation",
		Packages: []string{"internal/sim"},
		May:      client("gopkg.in/evanphx/json-patch.v4", "./internal/fleet/...", "./internal/apply/...", "./internal/controller/daemonset"),
		Reason:   "what ships is to be broken around an imaginary cluster: it takes the parts that ship, and no cluster",
		Deep:     noKubernetes,
		Tests:    true,
	}}
}

// verbZones is tier 2 of those verbs that need more than the others.
func verbZones() []Zone {
	return []Zone{{
		Name:     "text difference",
		Packages: []string{"internal/cli/textdiff"},
		May:      []string{"std", "github.com/pmezard/go-difflib/difflib", "sigs.k8s.io/yaml"},
		Reason:   "what two objects differ in can be said without a cluster",
		Bans:     noIO,
		Deep:     noClient,
	}, {
		Name:     "plan of an edit",
		Packages: []string{"internal/cli/plan"},
		May: client("k8s.io/cli-runtime/...", "gopkg.in/evanphx/json-patch.v4", "./internal/plan", "./internal/fleet/...", "./internal/cli/...",
			"./internal/dialects", "./internal/webhook/conversion", "./internal/webhook/defaulting", "./internal/webhook/validation"),
		Reason: "an edit is defaulted and judged as the webhooks do it, and its outcome is played by the decision of the manager",
		Deep:   noKubernetes,
	}}
}

// agentZones is tier 2 of the node agent. It shares with the manager the names of the API, tier 0, references of images, and what makes two
// templates the same, and nothing else.
func agentZones() []Zone {
	return []Zone{{
		Name:     "credentials",
		Packages: []string{"internal/agent/credentials"},
		May:      []string{"std", "k8s.io/api/core/v1", "k8s.io/apimachinery/...", "k8s.io/kubelet/pkg/apis/credentialprovider/v1", "sigs.k8s.io/yaml"},
		Reason:   "what a registry is shown does not depend on which runtime shows it",
		Deep:     noClient,
	}, {
		Name:     "runtime",
		Packages: []string{"internal/agent/cri"},
		May: []string{
			"std", "k8s.io/cri-client/...", "k8s.io/cri-api/...", "google.golang.org/grpc/...",
			"github.com/go-logr/logr", "k8s.io/klog/v2", "golang.org/x/sys/unix", "./internal/agent/credentials", "./internal/imageref",
		},
		Reason: "it talks to the runtime of the node, and to no cluster",
		Deep:   noClient,
	}, {
		Name:     "fake runtime",
		Packages: []string{"internal/agent/cri/fake"},
		May:      []string{"std", "k8s.io/cri-api/...", "google.golang.org/grpc"},
		Reason:   "a runtime for tests has to be one, and nothing else",
		Tests:    true,
	}, {
		Name:     "node store",
		Packages: []string{"internal/agent/store"},
		May:      []string{"std", "go.etcd.io/bbolt/...", "k8s.io/api/core/v1", "k8s.io/apimachinery/pkg/types", "./api/agent/v2"},
		Reason:   "what is kept on a disk has to be readable without a cluster",
		Deep:     noClient,
	}, {
		Name:     "node API",
		Packages: []string{"internal/agent/rest"},
		May: []string{
			"std", "k8s.io/api/apps/v1", "k8s.io/api/authentication/v1", "k8s.io/api/core/v1", "k8s.io/apimachinery/...", "k8s.io/klog/v2",
			"golang.org/x/time/rate", "./api/agent/v2", "./api/kruise", "./api/openyurt", "./internal/ota",
		},
		Reason: "it is handed pods, cluster and disk, so that one process can serve many nodes and a test needs none of them",
		Deep:   noClient,
	}, {
		Name:     "node client",
		Packages: []string{"internal/agent/kube"},
		May: []string{
			"std", "k8s.io/api/...", "k8s.io/apimachinery/...", "k8s.io/client-go/...", "k8s.io/klog/v2", "./api/kruise/...", "./internal/revision",
		},
		Reason: "it asks the API server and decides nothing",
		Deep:   smallClient(),
	}, {
		Name:     "agent",
		Packages: []string{"internal/agent"},
		May: []string{
			"std", "k8s.io/api/core/v1", "k8s.io/apimachinery/...", "k8s.io/client-go/...", "k8s.io/component-base/...", "k8s.io/klog/v2",
			"github.com/prometheus/client_golang/...", "github.com/spf13/cobra", "github.com/spf13/pflag", "gopkg.in/evanphx/json-patch.v4",
			"golang.org/x/net/netutil", "./api/kruise/...", "./api/openyurt", "./internal/agent/...", "./internal/imageref",
		},
		Reason: "one runs on every node, so it stays small, and it shares nothing with the manager that could drift unnoticed",
		Deep:   smallClient(),
	}}
}

// smallClient are what would make the agent large.
func smallClient() []Ban {
	return []Ban{
		noKubernetes[0],
		{"sigs.k8s.io/controller-runtime", "the agent watches few objects; what is made for many doubles its size"},
		{"k8s.io/client-go/kubernetes", "the types of all APIs are most of the size of a client"},
	}
}

// mainZones are tier 3: where all parts meet.
func mainZones() []Zone {
	return []Zone{{
		Name:     "features",
		Packages: []string{"internal/features"},
		May:      []string{"std", "k8s.io/component-base/..."},
		Reason:   "a gate is asked from anywhere, so it leans on nothing",
		Deep:     []Ban{noKubernetes[0], {"sigs.k8s.io/controller-runtime", "a gate is asked from anywhere, so it leans on nothing"}},
	}, {
		Name:     "manager",
		Packages: []string{"internal/manager"},
		May: client("./internal/fleet/...", "./internal/apply/...", "./internal/controller/...", "./internal/webhook/...", "./internal/features",
			"./internal/dialects", "./internal/peers"),
		Reason: "the parts of the manager meet here, and only those",
		Deep:   noKubernetes,
	}, {
		Name:     "main",
		Packages: []string{"cmd/..."},
		May: []string{
			"std", "sigs.k8s.io/controller-runtime", "k8s.io/cli-runtime/pkg/genericiooptions", "k8s.io/klog/v2",
			"./internal/manager", "./internal/agent", "./internal/cli/command", "./internal/cli/options",
		},
		Reason:   "a main reads its flags, wires and runs; all else has a place where it can be tested",
		Deep:     noKubernetes,
		MaxLines: 80,
	}}
}

// otherZones are the heavy modules, the upkeep of the repository, and what is made of files.
func otherZones() []Zone {
	return []Zone{{
		Name:     "manifests",
		Packages: []string{"config"},
		May:      []string{"embed"},
		Reason:   "it holds files, no code",
	}, {
		Name:     "rights",
		Packages: []string{"internal/rights"},
		May:      []string{"slices"},
		Reason:   "a table that manifests, documents and tests are compared with leans on none of them",
	}, {
		Name:     "tools",
		Packages: []string{"hack/tools/..."},
		May:      []string{"std", "github.com/google/licenseclassifier/v2/...", "github.com/CycloneDX/cyclonedx-go", "github.com/google/go-containerregistry/..."},
		Reason:   "it is a module of its own, so that what tools need is no part of the programs",
	}, {
		Name:     "upkeep",
		Packages: []string{"hack/...", "internal/arch"},
		May:      []string{"std", "github.com/spf13/pflag", "./api/...", "./internal/..."},
		Reason:   "what checks and documents the repository must not add a dependency to it",
	}, {
		Name:     "examples",
		Packages: []string{"examples/..."},
		May: slices.Concat(pureAPI, []string{
			"k8s.io/client-go/...", "github.com/spf13/pflag", "./api/...", "./examples/...",
		}),
		Reason: "an example is to be copied, so it takes nothing from us but the names of the API",
		Deep:   noKubernetes,
	}, {
		Name:     "test program",
		Packages: []string{"localplane/testapp", "localplane/cmd/testapp"},
		May:      []string{"std", "./localplane/testapp"},
		Reason:   "it is an image by itself, and is pulled again and again",
	}, {
		Name:     "heavy",
		Packages: []string{"localplane/..."},
		May:      []string{"*"},
	}, {
		Name:     "tests",
		Packages: []string{"test/..."},
		May:      []string{"*"},
		Tests:    true,
	}}
}
