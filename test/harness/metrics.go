// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"fmt"
	"net/http"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Gauge is the sum of those samples of a gauge of a manager that have all of these labels; 0 if there is none.
func (c *Cluster) Gauge(ctx context.Context, manager, name string, labels map[string]string) (float64, error) {
	url, err := c.Plane.MetricsURL(manager)
	if err != nil {
		return 0, err
	}
	const patience = 10 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, fmt.Errorf("reading the metrics of %s: %w", manager, err)
	}
	defer answer.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(answer.Body)
	if err != nil {
		return 0, fmt.Errorf("reading the metrics of %s: %w", manager, err)
	}
	sum := 0.0
	for _, sample := range families[name].GetMetric() {
		if hasLabels(sample, labels) {
			sum += sample.GetGauge().GetValue() + sample.GetUntyped().GetValue()
		}
	}
	return sum, nil
}

func hasLabels(sample *dto.Metric, labels map[string]string) bool {
	found := 0
	for _, label := range sample.GetLabel() {
		if value, asked := labels[label.GetName()]; asked && value == label.GetValue() {
			found++
		}
	}
	return found == len(labels)
}
