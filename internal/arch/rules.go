// SPDX-License-Identifier: Apache-2.0

package arch

// Rules is everything that Check looks for.
type Rules struct {
	// Zones are searched in order; the first that names a package is its zone.
	Zones  []Zone
	Limits Limits
	// Modules are bans on what a module may require.
	Modules []ModuleBan
	Words   []Word
	// Exceptions are places where a rule is broken for a reason. One that is not needed is a violation itself.
	Exceptions []Exception
}

// Zone is a group of packages that obey the same import rules. The rules hold for files that are not tests.
type Zone struct {
	Name string
	// Packages are directories of the repository; "dir/..." is dir with everything below it. Each must exist.
	Packages []string
	// May lists what the packages may import: a path, "path/..." for it and everything below, "std" for the standard
	// library, "./dir" for a package of this repository, "*" for anything. What is not listed is forbidden.
	May []string
	// Reason says why nothing else may be imported.
	Reason string
	// Bans take away what May or the language would allow: an import ("os") or a call ("time.Now").
	Bans []Ban
	// Deep lists modules that must not be reached by any chain of imports.
	Deep []Ban
	// Pure forbids goroutines, channels and ranging over a map in an order that is not sorted.
	Pure bool
	// Tests is whether the packages serve tests only, so that they may do what a test may.
	Tests bool
	// MaxLines and MaxFunc, when not 0, replace Limits.FileLines and Limits.FuncLines.
	MaxLines, MaxFunc int
}

// Ban forbids one thing for one reason.
type Ban struct {
	What, Reason string
}

// Limits are the sizes that the house style allows. Tests and generated files may have longer functions.
type Limits struct {
	FileLines, FuncLines, Params int
}

// ModuleBan forbids a requirement in the go.mod of one directory.
type ModuleBan struct {
	Dir, Require, Reason string
}

// Word is a pattern that must not occur in any text of the repository.
type Word struct {
	Pattern, Reason string
}

// Exception lets one file, or one directory, break one rule.
type Exception struct {
	Rule, Place, Reason string
}

// Everynode returns the rules of this repository. docs/ARCHITECTURE.md tells the story behind them.
func Everynode() Rules {
	return Rules{
		Zones:  zones(),
		Limits: Limits{FileLines: 500, FuncLines: 60, Params: 4},
		Modules: []ModuleBan{
			{".", "k8s.io/kubernetes", "who imports the API must not have to build Kubernetes; it lives in localplane and test"},
			{".", "go.etcd.io/etcd/server/v3", "a server belongs into localplane"},
			{".", "sigs.k8s.io/kwok", "simulated nodes belong into localplane"},
			{".", "everynode.dev/everynode/localplane", "the product must not depend on its test bench"},
			{".", "everynode.dev/everynode/test", "the product must not depend on its tests"},
		},
		Words: []Word{
			{`(^|[\s"'=:(\x60])/[w]ork/`, "a path of one machine means nothing on another"},
			{`(^|[\s"'=:(\x60])/root[/]`, "a path of one machine means nothing on another"},
			{`proxy\.golang[.]org|deb\.debian[.]org|registry\.npmjs[.]org`, "which mirror to use is for the environment to say"},
		},
		Exceptions: []Exception{
			{"context", "localplane/internal/cli/cli.go", "it is the main of localplane"},
			{"context", "localplane/internal/run/run.go", "it is the main of each component: localplane starts itself again for every one of them"},
			{"context", "localplane/start.go", "a plane outlives the call that starts it; Stop ends it"},
			{"context", "localplane/internal/supervisor/supervisor.go", "a supervisor outlives the call that makes it; Stop ends it"},
			{"size", "internal/manager/events.go", "how many parameters a recorder of events has is client-go's to say"},
		},
	}
}

var (
	noClock = []Ban{
		{"time.Now", "the time comes in with the snapshot, so that a decision can be repeated"},
		{"time.Since", "it reads the clock"},
		{"time.Until", "it reads the clock"},
		{"time.Sleep", "waiting is a returned wish (Plan.Wake), never an act"},
		{"time.After", "waiting is a returned wish (Plan.Wake), never an act"},
		{"time.AfterFunc", "waiting is a returned wish (Plan.Wake), never an act"},
		{"time.NewTimer", "waiting is a returned wish (Plan.Wake), never an act"},
		{"time.NewTicker", "waiting is a returned wish (Plan.Wake), never an act"},
		{"time.Tick", "waiting is a returned wish (Plan.Wake), never an act"},
		{"k8s.io/apimachinery/pkg/apis/meta/v1.Now", "it reads the clock"},
		{"k8s.io/utils/clock", "the time comes in as a value"},
	}
	noIO = []Ban{
		{"os", "a pure package reads and writes nothing"},
		{"os/exec", "a pure package reads and writes nothing"},
		{"net", "a pure package reads and writes nothing"},
		{"net/http", "a pure package reads and writes nothing"},
		{"context", "what cannot wait needs nothing to cancel it"},
		{"sync", "what runs in one goroutine needs no lock"},
		{"sync/atomic", "what runs in one goroutine needs no lock"},
		{"log", "what is worth saying is returned"},
		{"log/slog", "what is worth saying is returned"},
		{"math/rand", "chance would make two runs differ"},
		{"math/rand/v2", "chance would make two runs differ"},
		{"crypto/rand", "chance would make two runs differ"},
	}
	noClient = []Ban{
		{"k8s.io/client-go", "pure packages must be usable by a simulator and a browser without a client"},
		{"sigs.k8s.io/controller-runtime", "pure packages must be usable by a simulator and a browser without a client"},
		{"k8s.io/kubernetes", "the product is built on the published API only"},
	}
	noKubernetes = []Ban{{"k8s.io/kubernetes", "the product is built on the published API only"}}
)

// pureAPI is what a tier 1 package may import from outside of this repository.
var pureAPI = []string{
	"std", "k8s.io/api/...", "k8s.io/apimachinery/...", "k8s.io/component-helpers/...", "k8s.io/utils/...", "k8s.io/klog/v2",
}
