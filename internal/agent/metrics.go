// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/api/kruise/v1beta1"
	"everynode.dev/everynode/internal/agent/pull"
)

// Declaration is one metric.
type Declaration struct {
	Name, Type, Help string
	Labels           []string
}

// Indices into Declared.
const (
	metricImages = iota
	metricPulls
	metricSeconds
	metricRuntimeUp
	metricFill
	metricWrites
	metricAnswers
	metricConnected
	metricAside
)

// Declared returns the agent's own metrics.
func Declared() []Declaration {
	return []Declaration{
		metricImages:    {"everynode_agent_images", "gauge", "Wanted images by phase: Waiting, Pulling, Succeeded, Failed.", []string{"phase"}},
		metricPulls:     {"everynode_agent_pulls_total", "counter", "Pulls that have ended, by result: done, failed, lost (the runtime went away), cancelled.", []string{"result"}},
		metricSeconds:   {"everynode_agent_pull_seconds", "histogram", "Duration of successful pulls, in seconds.", nil},
		metricRuntimeUp: {"everynode_agent_runtime_up", "gauge", "1 if the container runtime answers, 0 if it does not.", nil},
		metricFill:      {"everynode_agent_image_fs_percent", "gauge", "Usage of the image file system in percent, as last read.", nil},
		metricWrites:    {"everynode_agent_status_writes_total", "counter", "Writes of the status, by result: done, failed.", []string{"result"}},
		metricAnswers:   {"everynode_agent_api_answers_total", "counter", "Responses of the API of the node, by status code.", []string{"code"}},
		metricConnected: {"everynode_agent_connected", "gauge", "1 if the API server answered the last request of the API of the node, else 0; it is only checked for requests that need it.", nil},
		metricAside:     {"everynode_agent_stores_set_aside_total", "counter", "Stores of the API of the node that the agent could not read and has renamed, with the decisions of the owner in them, since the agent started.", nil},
	}
}

// reporter sends events and counts metrics.
type reporter struct {
	recorder record.EventRecorder
	images   *prometheus.GaugeVec
	pulls    *prometheus.CounterVec
	seconds  prometheus.Histogram
	runtime  prometheus.Gauge
	fill     prometheus.Gauge
	writes   *prometheus.CounterVec
	answers  *prometheus.CounterVec
	online   prometheus.Gauge
	aside    prometheus.Counter
}

func newReporter(recorder record.EventRecorder, registry prometheus.Registerer) reporter {
	all := Declared()
	gauge := func(i int) prometheus.GaugeOpts { return prometheus.GaugeOpts{Name: all[i].Name, Help: all[i].Help} }
	counter := func(i int) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: all[i].Name, Help: all[i].Help}, all[i].Labels)
	}
	t := reporter{
		recorder: recorder,
		images:   prometheus.NewGaugeVec(gauge(metricImages), all[metricImages].Labels),
		pulls:    counter(metricPulls),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: all[metricSeconds].Name, Help: all[metricSeconds].Help, Buckets: prometheus.ExponentialBuckets(0.1, 3, 9),
		}),
		runtime: prometheus.NewGauge(gauge(metricRuntimeUp)),
		fill:    prometheus.NewGauge(gauge(metricFill)),
		writes:  counter(metricWrites),
		answers: counter(metricAnswers),
		online:  prometheus.NewGauge(gauge(metricConnected)),
		aside:   prometheus.NewCounter(prometheus.CounterOpts(gauge(metricAside))),
	}
	registry.MustRegister(t.images, t.pulls, t.seconds, t.runtime, t.fill, t.writes, t.answers, t.online, t.aside)
	return t
}

// storeSetAside is called when a store could not be read and was renamed.
func (t *reporter) storeSetAside(why string) {
	t.aside.Inc()
	klog.ErrorS(nil, why)
}

// answered is called after each response of the API of the node.
func (t *reporter) answered(code int) { t.answers.WithLabelValues(strconv.Itoa(code)).Inc() }

// connected is called after each probe of the API server.
func (t *reporter) connected(answers bool) {
	t.online.Set(0)
	if answers {
		t.online.Set(1)
	}
}

// podEvent sends an event about a pod.
func (t *reporter) podEvent(pod *corev1.Pod, kind, reason, message string) {
	t.recorder.Event(pod, kind, reason, message)
}

// observe is called after each decision.
func (t *reporter) observe(states []pull.State, facts pull.Facts) {
	count := map[pull.Phase]int{}
	for i := range states {
		count[states[i].Phase]++
	}
	for _, phase := range []pull.Phase{pull.Waiting, pull.Pulling, pull.Succeeded, pull.Broken} {
		t.images.WithLabelValues(phase.String()).Set(float64(count[phase]))
	}
	t.runtime.Set(1)
	if facts.Down != "" {
		t.runtime.Set(0)
	}
	if facts.Fill.Known {
		t.fill.Set(float64(facts.Fill.Percent))
	}
}

// pulled is called when a pull has ended.
func (t *reporter) pulled(r pull.Run, now time.Time) {
	result := "failed"
	switch {
	case r.Result == pull.Done:
		result = "done"
		t.seconds.Observe(now.Sub(r.Began).Seconds())
	case r.Cancelled != pull.NotCancelled:
		result = "cancelled"
	case r.Result == pull.Lost:
		result = "lost"
	}
	t.pulls.WithLabelValues(result).Inc()
}

// wrote is called after each write of the status.
func (t *reporter) wrote(err error) {
	result := "done"
	if err != nil {
		result = "failed"
	}
	t.writes.WithLabelValues(result).Inc()
}

// ended sends events about a want that succeeded or failed: for the NodeImage, and in case of a failure for the objects that want the image.
func (t *reporter) ended(object *v1beta1.NodeImage, s *pull.State, owners []corev1.ObjectReference) {
	node := &corev1.ObjectReference{
		APIVersion: v1beta1.GroupVersion().String(), Kind: kruise.KindNodeImage, Name: object.Name, UID: object.UID,
	}
	image := fmt.Sprintf("Image %s:%s", s.Image, s.Tag)
	if s.Phase == pull.Succeeded {
		t.recorder.Eventf(node, corev1.EventTypeNormal, kruise.ReasonPullSucceeded, "%s, elapsed time %v", image, s.Completed.Sub(s.Started).Round(time.Millisecond))
		return
	}
	t.recorder.Eventf(node, corev1.EventTypeWarning, kruise.ReasonPullFailed, "%s %s", image, s.Message)
	for i := range owners {
		t.recorder.Eventf(&owners[i], corev1.EventTypeWarning, kruise.ReasonPullFailed, "%s on node %s %s", image, object.Name, s.Message)
	}
}
