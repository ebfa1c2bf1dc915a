// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Analysis is a question to a provider. The answer decides whether a wave is healthy. It is measured from the moment when a node of the wave is
// updated until the wave has passed. The answer is Pass or Fail as success defines it, or Unknown: the provider did not answer in time, the answer has no data
// or not one value, or success cannot be computed from it.
type Analysis struct {
	// Name identifies the analysis within the policy.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`

	// Provider is the name of a provider in the configuration of the manager (--analysis-providers). A policy cannot contain an address.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Provider string `json:"provider"`

	// Query is what a provider of the kind prometheus evaluates. {{old}} and {{new}} are the committed and the new revision, as in the label
	// controller-revision-hash of their pods; {{wave}}, {{namespace}} and {{name}} are the wave, and the namespace and the name of the daemon set. They are
	// escaped for a string in double quotes. A provider of the kind webhook gets these values in the request, and needs no query.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Query string `json:"query,omitempty"`

	// Interval is the time between two measurements: from 5s to 24h. The default is 1m.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,9}([.][0-9]{1,9})?(ms|s)|[0-9]{1,7}([.][0-9]{1,9})?m|[0-9]{1,5}([.][0-9]{1,9})?h)+$') && duration(self) >= duration('5s') && duration(self) <= duration('24h')",message="must be a duration from 5s to 24h, such as 30s or 10m"
	Interval *metav1.Duration `json:"interval,omitempty"`

	// Success is an expression in CEL that is true if the measurement passes, for example result < 0.01. result is the value: of the only sample that the query
	// returns, or what the webhook answers. results are all samples of a query, each with value and labels, for example results.all(r, r.value < 0.01). If the
	// expression cannot be compiled, the policy reports the condition Stalled, and no update starts.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Success string `json:"success"`

	// FailureLimit is how many measurements may fail one after the other. With one more, the wave fails, and failure.action follows. Measurements that are less
	// than half of the interval apart count as one. The default is 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	FailureLimit *int32 `json:"failureLimit,omitempty"`

	// OnUnknown is Hold: a wave does not pass while the answer is not known.
	// +optional
	// +kubebuilder:validation:Enum=Hold
	OnUnknown OnUnknown `json:"onUnknown,omitempty"`

	// UnknownDeadline is how long the answer may be unknown before the policy reports the condition Stalled, and no further node of the wave is updated either:
	// from 1s to 168h. The rollout continues when there is an answer again. The default is 30m.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,9}([.][0-9]{1,9})?(ms|s)|[0-9]{1,7}([.][0-9]{1,9})?m|[0-9]{1,5}([.][0-9]{1,9})?h)+$') && duration(self) >= duration('1s') && duration(self) <= duration('168h')",message="must be a duration from 1s to 168h, such as 30m"
	UnknownDeadline *metav1.Duration `json:"unknownDeadline,omitempty"`
}

// OnUnknown defines what happens while the answer of an analysis is not known.
type OnUnknown string

// OnUnknownHold holds the rollout.
const OnUnknownHold OnUnknown = "Hold"

// BlockOnAlerts holds updates of nodes while alerts are firing.
type BlockOnAlerts struct {
	// Provider is the name of a provider of the kind prometheus in the configuration of the manager (--analysis-providers).
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Provider string `json:"provider"`

	// Match are matchers of labels that select alerts, as in PromQL: for example severity="critical",team="network". Without it, all alerts count.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^([a-zA-Z_][a-zA-Z0-9_]*(=|!=|=~|!~)"([^"\\\n]|\\.)*"(,[ ]*[a-zA-Z_][a-zA-Z0-9_]*(=|!=|=~|!~)"([^"\\\n]|\\.)*")*)?$`
	Match string `json:"match,omitempty"`

	// FiringOnly is whether only alerts that are firing count. Otherwise, those that are pending count too. The default is false.
	// +optional
	FiringOnly bool `json:"firingOnly,omitempty"`
}

// Answer is the outcome of a measurement.
type Answer string

// The answers.
const (
	AnswerPass    Answer = "Pass"
	AnswerFail    Answer = "Fail"
	AnswerUnknown Answer = "Unknown"
)

// AnalysisStatus is the result of an analysis of the active wave.
type AnalysisStatus struct {
	// Name is the name of the analysis.
	Name string `json:"name"`

	// Wave is the wave that is analysed.
	Wave string `json:"wave"`

	// Answer is Pass, Fail or Unknown, as measured last; Unknown also before the first measurement, before the first one after all nodes of the wave have
	// become available, and when no answer has followed a Pass for the interval and one minute.
	Answer Answer `json:"answer"`

	// Failures is how many measurements have failed one after the other. One that was taken less than half of the interval after the last one that counts does
	// not count: a wave that becomes complete is measured at once.
	// +optional
	Failures int32 `json:"failures,omitempty"`

	// LastFailure is when the last measurement was taken that counts as a failure.
	// +optional
	LastFailure *metav1.Time `json:"lastFailure,omitempty"`

	// UnknownFor is how long the answer has been unknown, when the status was written.
	// +optional
	UnknownFor *metav1.Duration `json:"unknownFor,omitempty"`

	// Measurements are the last ten measurements, the newest last.
	// +optional
	// +listType=atomic
	Measurements []Measurement `json:"measurements,omitempty"`

	// Question identifies what was asked: measurements of another query or expression do not count.
	// +optional
	Question string `json:"question,omitempty"`
}

// Measurement is one answer of a provider.
type Measurement struct {
	// At is when the measurement was taken.
	At metav1.Time `json:"at"`

	// Answer is Pass, Fail or Unknown.
	Answer Answer `json:"answer"`

	// Value is what was measured, shortened.
	// +optional
	Value string `json:"value,omitempty"`

	// Message is a human-readable sentence.
	// +optional
	Message string `json:"message,omitempty"`
}

// AlertsStatus is whether alerts hold updates of nodes.
type AlertsStatus struct {
	// Answer is Pass (no alert that matches), Fail (there are alerts that match) or Unknown.
	Answer Answer `json:"answer"`

	// Question identifies what was asked: an answer about other alerts does not count.
	// +optional
	Question string `json:"question,omitempty"`

	// Message is a human-readable sentence.
	// +optional
	Message string `json:"message,omitempty"`
}
