// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"everynode.dev/everynode/test/chrome"
	"everynode.dev/everynode/test/harness"
)

// recorded is what the dashboard has recorded, as far as it is looked at.
type recorded struct {
	Began, Until int64
	States       []struct{ V, R string }
	Base         []int
	Changes      []int64
	Gaps         [][2]int64
}

// past reads what the dashboard has recorded of the set.
func (d *dashboard) past() (p recorded, err error) {
	answer := d.send(d.t.Context(), http.MethodGet, "api/set/past?namespace="+d.s.Name+"&set=daemonset/"+set, "")
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return p, errors.New(answer.Status)
	}
	return p, json.NewDecoder(answer.Body).Decode(&p)
}

// last are the states of the nodes at the end.
func (p recorded) last() []int {
	now := append([]int(nil), p.Base...)
	for i := 0; i < len(p.Changes); i += 3 {
		now[p.Changes[i+1]] = int(p.Changes[i+2])
	}
	return now
}

// ends is met when what is recorded ends with all nodes up to date with a revision other than the one at its begin.
func (p recorded) ends() error {
	if len(p.Base) != nodes {
		return fmt.Errorf("%d nodes are recorded", len(p.Base))
	}
	first := p.States[p.Base[0]].R
	for node, state := range p.last() {
		if s := p.States[state]; s.V != "up-to-date" || s.R == first {
			return fmt.Errorf("node %d has %+v", node, s)
		}
	}
	return nil
}

// every is an expression for whether the labels of all cells have a text.
func every(text string) string {
	return fmt.Sprintf("[...document.querySelectorAll('.cell')].length === %d && [...document.querySelectorAll('.cell')].every((c) => c.getAttribute('aria-label').includes(%q))", nodes, text)
}

// slide moves the slider of the playback to a part of its way.
func slide(part float64) chromedp.Action {
	return chromedp.Evaluate(fmt.Sprintf(`((e) => { e.value = Number(e.min) + %g * (e.max - e.min); e.dispatchEvent(new Event("input", {bubbles: true})); })(%s)`,
		part, chrome.Find(".playback input[type=range]")), nil)
}

// TestPlayback plays a rollout back: the picture is the old one, then those in between, then the newest, and is live again after that. A time in which the cluster
// did not answer is a gap in which no state is shown.
func TestPlayback(t *testing.T) {
	b := browse(t)
	c := shared.Cluster(t)
	s := c.Space(t, nodes)
	s.Run(set, harness.WithBudget("2", "0"))
	d := start(t, s)
	b.Does("the set at rest", firstSet(d.url), chrome.Until(chrome.Count(".cell.g1")+" === 6"))
	var old recorded
	s.Poll("the recording has begun", func() (err error) { old, err = d.past(); return err })
	s.Update(set, harness.WithImage(harness.Image2))
	var now recorded
	s.Poll("the rollout is recorded", func() (err error) {
		if now, err = d.past(); err != nil {
			return err
		}
		return now.ends()
	})
	before, after := old.States[old.Base[0]].R, now.States[now.last()[0]].R

	b.Does("the begin", chrome.Press(chrome.Named(".actions button", "Play back the last hours")), chromedp.WaitVisible(`[data-playback="shown"]`),
		chrome.Until(every("pod of revision "+before)), chrome.Until(chrome.Count(".cell.g1")+" === 6"),
		chrome.Until(`document.querySelector("h2 .badge").innerText === "at " + new Date(`+fmt.Sprint(now.Began)+`).toISOString().slice(11, 19) + " UTC"`))
	b.Does("a node then", chrome.Press(chrome.Find(".cell")), chrome.Until(`document.querySelector(".panel").innerText.includes("pod of revision `+before+`")`), chrome.Press(chrome.Find(".panel button")))
	b.Does("the first change", chrome.Press(chrome.Named(".playback button", "Next change")), chrome.Until(chrome.Count(".cell:not(.g1)")+" > 0"))
	b.picture("dashboard-playback", 850)
	b.accessible("a playback")
	b.Does("the rest, played", chrome.Press(chrome.Named(".playback button", "Play")), slide(0.97), chrome.Press(chrome.Named(".playback button", "Play")),
		chrome.Until(every("pod of revision "+after)+" && "+chrome.Count(".cell.g1")+" === 6"), chrome.Until(chrome.Named(".playback button", "Play")+" !== undefined"))
	b.Does("the begin, by the keyboard", chromedp.Focus(".playback input[type=range]"), chromedp.KeyEvent(kb.Home), chrome.Until(every("pod of revision "+before)))
	b.Does("live", chrome.Press(chrome.Named(".playback button", "Back to live")), chrome.Until(chrome.Count("[data-playback]")+" === 0 && "+every("pod ready")))

	c.Kill(t, "kube-apiserver")
	s.Poll("nothing is recorded", func() error {
		p, err := d.past()
		if silent := time.Since(time.UnixMilli(p.Until)); err == nil && silent < 26*time.Second {
			return fmt.Errorf("the last look was %s ago", silent)
		}
		return err
	})
	c.StartComponent(t, "kube-apiserver")
	s.Poll("there is a gap", func() error {
		p, err := d.past()
		if err == nil && len(p.Gaps) == 0 {
			return errors.New("there is none")
		}
		now = p
		return err
	})
	inside := float64(now.Gaps[0][0]+now.Gaps[0][1])/2 - float64(now.Began)
	b.Does("the gap", chrome.Press(chrome.Named(".actions button", "Play back the last hours")), chromedp.WaitVisible("[data-playback]"), slide(inside/float64(now.Until-now.Began)),
		chrome.Until(`document.querySelector("[data-playback='gap']")?.innerText.includes("Nothing is recorded from")`), chrome.Until(every("not recorded")+" && "+chrome.Count(".cell.g0")+" === 6"))
	b.Does("live again", chrome.Press(chrome.Named(".playback button", "Back to live")), chrome.Until(every("pod ready")))
}
