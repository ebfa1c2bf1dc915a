// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func TestBrief(t *testing.T) {
	if err := errors.New("no"); !errors.Is(Brief(err), err) || Brief(nil) != nil {
		t.Error("a short error changes")
	}
	for _, text := range []string{strings.Repeat("a", 5000), strings.Repeat("ä", 3000), "x" + strings.Repeat("€", 3000), strings.Repeat("\xbf", 5000)} {
		err := apierrors.NewForbidden(pods, "p", errors.New(text))
		got := Brief(wrapped(err))
		if n := len(got.Error()); n < maxWords || n > maxWords+64 || !strings.Contains(got.Error(), "bytes") || !strings.HasPrefix(got.Error(), `writing: pods "p" is forbidden: `) {
			t.Errorf("%d bytes: %s", n, got)
		}
		if utf8.ValidString(text) && !utf8.ValidString(got.Error()) {
			t.Errorf("cut within a character: %q", got)
		}
		if OfCreate(got) != Refused || !errors.Is(got, err) {
			t.Errorf("%s does not mean the same", got)
		}
	}
}
