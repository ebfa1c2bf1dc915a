// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"everynode.dev/everynode/internal/testing/fakecluster"
)

// drawn is what a viewer has after some messages.
type drawn struct {
	parts map[string]string
	items map[string]string
}

func (d *drawn) apply(t *testing.T, m message) {
	t.Helper()
	if m.Full {
		d.parts, d.items = map[string]string{}, map[string]string{}
	}
	for key, data := range m.Parts {
		d.parts[key] = string(data)
	}
	for _, data := range m.Items {
		var of struct {
			Key string `json:"k"`
		}
		if err := json.Unmarshal(data, &of); err != nil {
			t.Fatal(err)
		}
		d.items[of.Key] = string(data)
	}
	for _, key := range m.Gone {
		delete(d.items, key)
	}
}

// random returns a frame with some of ten items.
func random(t *testing.T, r *rand.Rand) *frame {
	t.Helper()
	f := &frame{}
	if err := f.add("head", r.IntN(3)); err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		if r.IntN(3) > 0 {
			key := fmt.Sprintf("n%d", i)
			if err := f.put(key, map[string]any{"k": key, "v": r.IntN(3)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	f.sort()
	return f
}

func whole(f *frame) drawn {
	d := drawn{map[string]string{}, map[string]string{}}
	for _, p := range f.parts {
		d.parts[p.key] = string(p.data)
	}
	for _, i := range f.items {
		d.items[i.key] = string(i.data)
	}
	return d
}

// A viewer that skips any frames has the picture that it got last, and was sent nothing that it had.
func TestDifferences(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var last *frame
	var d drawn
	for range 2000 {
		now := random(t, r)
		m := now.since(last)
		for _, data := range m.Items {
			var of struct {
				Key string `json:"k"`
			}
			if err := json.Unmarshal(data, &of); err != nil {
				t.Fatal(err)
			}
			if last != nil && d.items[of.Key] == string(data) {
				t.Fatalf("%s was sent again", data)
			}
		}
		d.apply(t, m)
		if want := whole(now); !reflect.DeepEqual(d, want) {
			t.Fatalf("got %v, want %v", d, want)
		}
		if m := now.since(now); !m.empty() {
			t.Fatalf("nothing has changed, and %v is sent", m)
		}
		last = now
	}
}

// slow is a page of which a frame is made only when something has changed.
type slow struct{ built chan struct{} }

func (s slow) pace() (shortest, longest time.Duration) { return 0, time.Hour }

func (s slow) build(context.Context) (*frame, error) {
	s.built <- struct{}{}
	return &frame{}, nil
}

// A page says at once that the connection to the cluster is lost, and that it is there again.
func TestALostConnectionIsShownAtOnce(t *testing.T) {
	w := open(t, fakecluster.New(t, roll().Objects(t)...))
	built := make(chan struct{})
	for _, page := range []string{"sets", "node/node-1", setPrefix + "ads/default/agent"} {
		_, leave := w.s.hubs.join(page, func() builder { return slow{built} })
		<-built
		w.s.turned()
		select {
		case <-built:
		case <-t.Context().Done():
		case <-time.After(30 * time.Second):
			t.Errorf("%s is not made again", page)
		}
		leave()
	}
}
