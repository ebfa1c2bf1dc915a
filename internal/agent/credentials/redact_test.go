// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"testing"
)

func TestRedact(t *testing.T) {
	for text, want := range map[string]string{
		"403 Forbidden": "403 Forbidden",
		`failed to pull and unpack image "r.io/app:v1": failed to resolve reference "r.io/app:v1": pull access denied`: `failed to pull and unpack image "r.io/app:v1": failed to resolve reference "r.io/app:v1": pull access denied`,
		`Head "https://r.io:5000/v2/app/manifests/v1": dial tcp 10.0.0.1:5000: connection refused`:                     `Head "https://r.io:5000/v2/app/manifests/v1": dial tcp 10.0.0.1:5000: connection refused`,
		`server gave Bearer realm="https://auth.r.io/token",service="r.io"`:                                            `server gave Bearer realm="https://auth.r.io/token",service="r.io"`,
		"mail ann@example.com about r.io/app@sha256:0123456789abcdef":                                                  "mail ann@example.com about r.io/app@sha256:0123456789abcdef",
		"": "",

		`Get "https://ann:pa55%2Fw+rd@r.io/v2/": EOF`:                                      `Get "https://[redacted]@r.io/v2/": EOF`,
		"dial https://somebody@r.io: no":                                                   "dial https://[redacted]@r.io: no",
		"https://a:b@c@r.io/x?sig=1 failed":                                                "https://[redacted]@r.io/x?[redacted] failed",
		`dial https://CORP\bob:hunter2@r.io: no`:                                           `dial https://[redacted]@r.io: no`,
		`Get "https://s3.example.com/blob/1?X-Amz-Signature=abc&X-Amz-Date=1"`:             `Get "https://s3.example.com/blob/1?[redacted]"`,
		"redirected to https://auth.r.io/token?account=ann&password=p: refused":            "redirected to https://auth.r.io/token?[redacted] refused",
		`{"error":"Get \"https://a.net/x?sv=2020\u0026sp=r\u0026sig=s1gn4ture%3D\": EOF"}`: `{"error":"Get \"https://a.net/x?[redacted]\": EOF"}`,
		`{"url":"https:\/\/bob:hunter2@r.io\/v2\/?x=1\u0026y=2"}`:                          `{"url":"https:\/\/[redacted]@r.io\/v2\/?[redacted]"}`,
	} {
		if got := Redact(text); got != want {
			t.Errorf("%s\nbecomes %s\nwant    %s", text, got, want)
		}
	}
}

func TestRedactIsBounded(t *testing.T) {
	long := strings.Repeat("ö", 1<<20)
	if got := Redact(long); len(got) > longestText+20 || !strings.HasPrefix(got, "öö") || !strings.HasSuffix(got, "ö [truncated]") {
		t.Errorf("%d bytes become %d", len(long), len(got))
	}
	// Half a URL does not look like one, so the text is shortened after its URLs.
	cut := strings.Repeat("refused ", longestText/8-2) + "https://ann:" + strings.Repeat("hunter2", 1000) + "@r.io"
	if got := Redact(cut); strings.Contains(got, "hunter2") {
		t.Errorf("it ends in %q", got[len(got)-30:])
	}
}

const withheld = " (the pull used credentials, so details are only in the log of the container runtime)"

func TestReason(t *testing.T) {
	for text, want := range map[string]string{
		`failed to resolve reference "r.io/app:v1": unexpected status from HEAD request to https://r.io/v2/app/manifests/v1: 401 Unauthorized`: "401 Unauthorized",
		`403 Forbidden for pa55word: Get "https://ann:pa55word@r.io": pa55word`:                                                                "403 Forbidden",
		`r.io/app:v9: not found`: "not found",
		`pull access denied, repository does not exist or may require authorization: server message: insufficient_scope: authorization failed`: "pull access denied, authorization failed, insufficient_scope",
		`Get "https://r.io/v2/": dial tcp: lookup r.io: no such host`:                                                                          "no such host",
		`Get "https://r.io/v2/": tls: failed to verify certificate: x509: certificate signed by unknown authority`:                             "certificate signed by unknown authority, x509, failed to verify",
		"write /var/lib: no space left on device\ntoomanyrequests: slow down":                                                                  "toomanyrequests, no space left on device",
		"the password hunter2 was not taken":                                                                                                   "unknown error",
		"":                                                                                                                                     "unknown error",
	} {
		if got := Reason(errors.New(text)); got != want+withheld {
			t.Errorf("%s\nbecomes %s\nwant    %s", text, got, want)
		}
	}
}

// key is a password of several lines: that of a service account at a registry of Google, whose user is _json_key.
const key = `{
  "type": "service_account",
  "private_key": "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC/+8wggSj\nAgEAAoIBAQDTNmBD7k0xZ9Y=\n-----END PRIVATE KEY-----\n"
}
`

// FuzzReason: whatever an error quotes, and in whichever encoding, the reason is made of fixed phrases.
func FuzzReason(f *testing.F) {
	inJSON, _ := json.Marshal(key) // a string is always encoded
	for _, secret := range []string{
		"hunter2", "pa/a?s@w+r", `pa"ss\word<1`, key, string(inJSON), url.QueryEscape(key), base64.StdEncoding.EncodeToString([]byte("ann:hunter2")), "ſorbidden 401 UNAUTHORIZED",
	} {
		f.Add("401 Unauthorized: the registry does not accept " + secret)
		f.Add("unexpected EOF, not found: " + secret)
	}
	fixed := map[string]bool{"unknown error": true}
	for _, phrase := range phrases() {
		fixed[phrase] = true
	}
	f.Fuzz(func(t *testing.T, text string) {
		list, ok := strings.CutSuffix(Reason(errors.New(text)), withheld)
		if !ok {
			t.Fatal(list)
		}
		for _, phrase := range strings.Split(list, ", ") {
			if !fixed[phrase] {
				t.Errorf("%q is no fixed phrase", phrase)
			}
		}
	})
}
