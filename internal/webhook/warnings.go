// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"regexp"
	"sync"

	"k8s.io/client-go/rest"
)

// Collecting handles the API server's warnings to a client: if a request collects its warnings, they are
// stored there, because they concern the input of another client; all others go to Otherwise, which logs them
// if it is nil.
type Collecting struct {
	Otherwise rest.WarningHandlerWithContext
}

// HandleWarningHeaderWithContext implements rest.WarningHandlerWithContext.
func (c Collecting) HandleWarningHeaderWithContext(ctx context.Context, code int, agent, text string) {
	if into, ok := ctx.Value(collectionKey{}).(*collection); ok {
		into.add(code, text)
		return
	}
	if c.Otherwise == nil {
		c.Otherwise = rest.WarningLogger{}
	}
	c.Otherwise.HandleWarningHeaderWithContext(ctx, code, agent, text)
}

type collectionKey struct{}

// collection is the warnings to the requests of one context.
type collection struct {
	mu    sync.Mutex
	texts []string
}

// warningCode is the only code of human-readable warnings.
const warningCode = 299

func (c *collection) add(code int, text string) {
	if code != warningCode || text == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.texts = append(c.texts, text)
}

// collect returns a context for requests about a PodTemplate, and the warnings to these requests, with paths below spec.
func collect(ctx context.Context) (collecting context.Context, warnings func() []string) {
	into := &collection{}
	return context.WithValue(ctx, collectionKey{}, into), func() (texts []string) {
		into.mu.Lock()
		defer into.mu.Unlock()
		path := regexp.MustCompile(`(^|[\s("])template\.(spec|metadata)\b`)
		for _, text := range into.texts {
			texts = append(texts, path.ReplaceAllString(text, "${1}spec.template.${2}"))
		}
		return texts
	}
}
