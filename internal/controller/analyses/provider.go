// SPDX-License-Identifier: Apache-2.0

package analyses

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/api"
	prometheus "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"everynode.dev/everynode/internal/policy"
)

// source asks a provider of one kind.
type source interface {
	query(ctx context.Context, q *policy.Question) (*Result, error)
	// alerts returns the names of the alerts that match.
	alerts(ctx context.Context, match string, firingOnly bool) ([]string, error)
}

// publicError is an error with a message that policies may show: it has no address of the provider.
type publicError struct{ message string }

// Error implements error.
func (t *publicError) Error() string { return t.message }

// incomplete is the error for an answer with warnings: a part of the data may be missing.
func incomplete(notes string) error {
	return &publicError{"the answer may be incomplete, because the provider warns: " + policy.Shortened(printable(notes), maxMessage/2)}
}

// fromPrometheus asks a Prometheus.
type fromPrometheus struct{ api prometheus.API }

func newPrometheus(address string, client *http.Client) (source, error) {
	c, err := api.NewClient(api.Config{Address: address, Client: client})
	if err != nil {
		return nil, fmt.Errorf("url: %w", err)
	}
	return &fromPrometheus{prometheus.NewAPI(whole{c})}, nil
}

// whole refuses answers in which a part of the data is missing. Prometheus says that in warnings; servers that answer its queries for a cluster of storages also have a field of their own.
type whole struct{ api.Client }

// Do implements api.Client.
func (w whole) Do(ctx context.Context, r *http.Request) (*http.Response, []byte, error) {
	response, body, err := w.Client.Do(ctx, r)
	var answer struct {
		IsPartial bool `json:"isPartial"`
	}
	if err == nil && json.Unmarshal(body, &answer) == nil && answer.IsPartial {
		err = &publicError{"the answer is incomplete, because the provider says isPartial"}
	}
	return response, body, err
}

func (p *fromPrometheus) ask(ctx context.Context, query string) (*Result, error) {
	value, warnings, err := p.api.Query(ctx, query, time.Time{})
	if refusal := (*prometheus.Error)(nil); errors.As(err, &refusal) {
		if refusal.Type == prometheus.ErrBadData || refusal.Type == prometheus.ErrExec || refusal.Type == prometheus.ErrTimeout {
			return nil, &publicError{"Prometheus cannot evaluate the query: " + policy.Shortened(printable(refusal.Msg), maxMessage/2)}
		}
		return nil, fmt.Errorf("the answer is not one of Prometheus: %w", err)
	}
	if err != nil {
		return nil, err
	}
	out := &Result{Notes: strings.Join(warnings, "; ")}
	switch v := value.(type) {
	case *model.Scalar:
		out.Samples = []Sample{{Value: float64(v.Value)}}
	case model.Vector:
		for _, s := range v {
			if s == nil || s.Histogram != nil {
				return nil, &publicError{"The query returns histograms: apply histogram_quantile or a similar function to them"}
			}
			labels := map[string]string{}
			for name, value := range s.Metric {
				labels[string(name)] = string(value)
			}
			out.Samples = append(out.Samples, Sample{labels, float64(s.Value)})
		}
	default:
		return nil, &publicError{fmt.Sprintf("The query returns a %s: it must return an instant vector or a scalar", value.Type())}
	}
	return out, nil
}

func (p *fromPrometheus) query(ctx context.Context, q *policy.Question) (*Result, error) {
	return p.ask(ctx, fill(q))
}

func (p *fromPrometheus) alerts(ctx context.Context, match string, firingOnly bool) ([]string, error) {
	state := `alertstate=~"firing|pending"`
	if firingOnly {
		state = `alertstate="firing"`
	}
	if match != "" {
		state += "," + match
	}
	r, err := p.ask(ctx, "ALERTS{"+state+"}")
	if err != nil {
		return nil, err
	}
	var names []string
	for _, s := range r.Samples {
		if math.IsNaN(s.Value) {
			return nil, errNaN
		}
		names = append(names, s.Labels[model.AlertNameLabel])
	}
	if len(names) == 0 && r.Notes != "" {
		return nil, incomplete(r.Notes)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// fromWebhook asks a webhook.
type fromWebhook struct {
	url    string
	client *http.Client
}

// request is what a webhook gets.
type request struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Analysis  string `json:"analysis"`
	Old       string `json:"old"`
	New       string `json:"new"`
	Wave      string `json:"wave"`
}

func (w *fromWebhook) query(ctx context.Context, q *policy.Question) (*Result, error) {
	body, err := json.Marshal(request{q.Namespace, q.Set, q.Analysis, q.Old, q.New, q.Wave})
	if err != nil {
		return nil, fmt.Errorf("encoding the request: %w", err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("making the request: %w", err)
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := w.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, &publicError{fmt.Sprintf("The webhook answers with status %d", response.StatusCode)}
	}
	data, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	var answer struct {
		Result any `json:"result"`
	}
	if err := json.Unmarshal(data, &answer); err != nil {
		return nil, &publicError{`The webhook does not answer {"result": VALUE} in JSON`}
	}
	return &Result{Value: answer.Result, Webhook: true}, nil
}

func (w *fromWebhook) alerts(context.Context, string, bool) ([]string, error) {
	return nil, &publicError{"The provider is a webhook: only one of the kind prometheus has alerts"}
}
