// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"maps"
	"math/rand/v2"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestDiscreet(t *testing.T) {
	ann := Credential{Username: "ann", Password: "pa55/w+rd", IdentityToken: "identity-of-ann", RegistryToken: "registry-of-ann"}
	short := Credential{Username: "x", Password: "go"}
	for text, want := range map[string]string{
		// What runtimes and registries say, and what has to stay.
		"403 Forbidden": "403 Forbidden",
		`failed to pull and unpack image "r.io/app:v1": failed to resolve reference "r.io/app:v1": pull access denied`: `failed to pull and unpack image "r.io/app:v1": failed to resolve reference "r.io/app:v1": pull access denied`,
		"failed to fetch oauth token: unexpected status: 401 Unauthorized":                                             "failed to fetch oauth token: unexpected status: 401 Unauthorized",
		`Head "https://r.io:5000/v2/app/manifests/v1": dial tcp 10.0.0.1:5000: connection refused`:                     `Head "https://r.io:5000/v2/app/manifests/v1": dial tcp 10.0.0.1:5000: connection refused`,
		`server gave Bearer realm="https://auth.r.io/token",service="r.io"`:                                            `server gave Bearer realm="https://auth.r.io/token",service="r.io"`,
		"mail ann@example.com about r.io/app@sha256:0123456789abcdef":                                                  "mail ann@example.com about r.io/app@sha256:0123456789abcdef",
		"":                            "",
		"let the image go, or do not": "let the image go, or do not",

		// Where a credential may stand.
		`Get "https://ann:pa55%2Fw+rd@r.io/v2/": EOF`:                           `Get "https://[hidden]@r.io/v2/": EOF`,
		"dial https://somebody@r.io: no":                                        "dial https://[hidden]@r.io: no",
		"https://a:b@c@r.io/x?sig=1 failed":                                     "https://[hidden]@r.io/x?[hidden] failed",
		`Get "https://s3.example.com/blob/1?X-Amz-Signature=abc&X-Amz-Date=1"`:  `Get "https://s3.example.com/blob/1?[hidden]"`,
		"redirected to https://auth.r.io/token?account=ann&password=p: refused": "redirected to https://auth.r.io/token?[hidden] refused",
		"ann:pa55/w+rd is wrong":                                                "ann:[hidden] is wrong",
		"query pa55%2Fw%2Brd, base64 YW5uOnBhNTUvdytyZA==":                      "query [hidden], base64 [hidden]",
		"sent identity-of-ann and registry-of-ann":                              "sent [hidden] and [hidden]",
		"Authorization: Basic c29tZWJvZHk6ZWxzZQ==, 1":                          "Authorization: Basic [hidden], 1",
		"with bearer abcdefgh.ijkl-mnop":                                        "with bearer [hidden]",
		`{"access_token":"abc","expires_in":300}`:                               `{"access_token":"[hidden]","expires_in":300}`,
		"AWS_SECRET_ACCESS_KEY=abc/def AWS_REGION=eu":                           "AWS_SECRET_ACCESS_KEY=[hidden] AWS_REGION=eu",
		"--password=hunter2 --user=ann":                                         "--password=[hidden] --user=ann",
		"token eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl expired":       "token [hidden] expired",

		// As others write it.
		`{"error":"Get \"https://a.net/x?sv=2020\u0026sp=r\u0026sig=s1gn4ture%3D\": EOF"}`: `{"error":"Get \"https://a.net/x?[hidden]\": EOF"}`,
		`dial a.net/x?sv=2020&sig=s1gn4ture%3D: EOF, a.net/x?sv=2020\u0026sig=s1gn4ture`:   `dial a.net/x?sv=2020&sig=[hidden] EOF, a.net/x?sv=2020\u0026sig=[hidden]`,
		`{"url":"https:\/\/bob:hunter2@r.io\/v2\/?x=1\u0026y=2"}`:                          `{"url":"https:\/\/[hidden]@r.io\/v2\/?[hidden]"}`,
		`dial https://CORP\bob:hunter2@r.io: no`:                                           `dial https://[hidden]@r.io: no`,
		"helper --password='hunter 2' failed":                                              "helper --password='[hidden]' failed",
		`helper --password="correct horse \"battery\"" failed`:                             `helper --password="[hidden]" failed`,
		`"helper --password=\"correct horse \\\"battery\\\"\" failed"`:                     `"helper --password=\"[hidden]\" failed"`,
		`auth_config:{username:"bob" password:"hunter2" auth:"Ym9i"}`:                      `auth_config:{username:"bob" password:"[hidden]" auth:"[hidden]"}`,
		`AuthConfig{Username:bob,Password:hunter2,Auth:,IdentityToken:abc,}`:               `AuthConfig{Username:bob,Password:[hidden],Auth:,IdentityToken:[hidden],}`,
		`{"auths":{"r.io":{"auth":"Ym9iOmh1bnRlcjI="}}}`:                                   `{"auths":{"r.io":{"auth":"[hidden]"}}}`,
		`"{\"access_token\": \"abc\",\"expires_in\":300}"`:                                 `"{\"access_token\": \"[hidden]\",\"expires_in\":300}"`,
		`{'password': 'hunter2', 'pin_token': 1234}`:                                       `{'password': '[hidden]', 'pin_token': [hidden]}`,
		`refused pa55%2fw%2brd, pa55/w\u002Brd, pa55\/w+rd`:                                `refused [hidden], [hidden], [hidden]`,
		"helper --pull-secret=9f8e7d6c5b4a3f2e1d0c failed":                                 "helper --pull-secret=[hidden] failed",
		`{"pull_secret":"9f8e7d6c5b4a3f2e1d0c"}`:                                           `{"pull_secret":"[hidden]"}`,
		`pullSecret="{\"auths\":{\"r.io\":{\"auth\":\"Ym9i\"}}}"`:                          `pullSecret="[hidden]"`,

		// What only looks like a secret.
		"Basic authentication is not supported":                    "Basic authentication is not supported",
		"no bearer challenges, nor Basic authorization.":           "no bearer challenges, nor Basic authorization.",
		`imagePullSecret=regcred, "secretName": "ns/a.b", x=1`:     `imagePullSecret=regcred, "secretName": "ns/a.b", x=1`,
		`{\"secretRef\":\"a\"}, secretNamespace: "ns"`:             `{\"secretRef\":\"a\"}, secretNamespace: "ns"`,
		`Post "https://auth.r.io/token": dial tcp: no such host`:   `Post "https://auth.r.io/token": dial tcp: no such host`,
		"r.io/external-secrets:v1, r.io/token:latest, design=flat": "r.io/external-secrets:v1, r.io/token:latest, design=flat",
	} {
		if got := Discreet(text, ann, short); got != want {
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

// asWritten are the forms in which others write a secret that they were given.
func asWritten(secret string) map[string]string {
	quoted := func(s string) string { return strings.Trim(fmt.Sprintf("%q", s), `"`) }
	inJSON := func(s string) string {
		data, _ := json.Marshal(s) // a string is always encoded
		return string(data[1 : len(data)-1])
	}
	ascii := strings.Trim(fmt.Sprintf("%+q", secret), `"`)
	forms := map[string]string{
		"as it is": secret,
		"%q":       quoted(secret), "%+q": ascii,
		"%q of %q": quoted(quoted(secret)), "%q of JSON": quoted(inJSON(secret)),
		"JSON": inJSON(secret), "JSON without escapes for HTML": strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(inJSON(secret)),
		"JSON of PHP": strings.ReplaceAll(ascii, "/", `\/`),
		"JSON of .NET": strings.NewReplacer(`\\`, `\\`, `\"`, `\u0022`, "+", `\u002B`, "<", `\u003C`, ">", `\u003E`, "&", `\u0026`, "'", `\u0027`, "`", `\u0060`).Replace(
			regexp.MustCompile(`\\u....`).ReplaceAllStringFunc(ascii, func(e string) string { return `\u` + strings.ToUpper(e[2:]) })),
		"JSON of Gson":            strings.NewReplacer("=", `\u003d`, "'", `\u0027`).Replace(inJSON(secret)),
		"form with small letters": regexp.MustCompile("%..").ReplaceAllStringFunc(url.QueryEscape(secret), strings.ToLower),
		"HTML":                    html.EscapeString(secret),
		"form":                    url.Values{"": {secret}}.Encode()[1:], "path": url.PathEscape(secret),
		"X-Registry-Auth": base64.URLEncoding.EncodeToString([]byte(`{"username":"ann","password":"` + inJSON(secret) + `"}`)),
	}
	for name, encoding := range map[string]*base64.Encoding{
		"base64": base64.StdEncoding, "raw base64": base64.RawStdEncoding, "base64url": base64.URLEncoding, "raw base64url": base64.RawURLEncoding,
	} {
		forms[name] = encoding.EncodeToString([]byte(secret))
		forms[name+" with the user"] = encoding.EncodeToString([]byte("ann:" + secret))
		forms[name+" with another user"] = encoding.EncodeToString([]byte("somebody:" + secret))
		forms["form of "+name] = url.QueryEscape(forms[name])
	}
	return forms
}

// TestDiscreetWhateverTheForm: a secret goes in whichever of these forms it is told, and the text around it stays.
func TestDiscreetWhateverTheForm(t *testing.T) {
	for _, secret := range []string{`pa"ss\word<1`, "a/b='+c", "two\nlines", "pa>>?s?s&'ö", "a:b@c/d+e f", "s3cretpw\n", "1234", key} {
		for name, form := range asWritten(secret) {
			text := "the server took «" + form + "» for none"
			got := Discreet(text, Credential{Username: "ann", Password: secret})
			if strings.Contains(got, form) || !strings.HasPrefix(got, "the server took «") || !strings.HasSuffix(got, "» for none") || !strings.Contains(got, hidden) {
				t.Errorf("%s: %s\nbecomes %s", name, text, got)
			}
		}
	}
}

// TestDiscreetInParts: of a secret of several lines nothing that is worth something is told when a part of it is.
func TestDiscreetInParts(t *testing.T) {
	used := Credential{Username: "_json_key", Password: key}
	for text, want := range map[string]string{
		"cannot parse -----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC/+8wggSj\n": "cannot parse -----BEGIN PRIVATE KEY-----\n" + hidden + "\n",
		"a body that was cut: " + strings.TrimSpace(fmt.Sprintf("%.130q", key)):                "a body that was cut: \"{\\n  [hidden]\\n  [hidden]\\\\n[hidden]\\\\nAgEAAoIBAQ\"",
		"it is no " + `"type": "service_account",`:                                             "it is no " + hidden,
		"it has no type of a service_account":                                                  "it has no type of a service_account",
	} {
		if got := Discreet(text, used); got != want {
			t.Errorf("%s\nbecomes %s\nwant    %s", text, got, want)
		}
	}
}

// letters are text without any repetition, the same each time.
func letters(n int) string {
	r := rand.New(rand.NewPCG(1, 2))
	text := make([]byte, n)
	for i := range text {
		text[i] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"[r.IntN(62)]
	}
	return string(text)
}

// TestDiscreetInPieces: a long secret goes also where it, or its base64, was cut or broken into lines, whichever piece it is and however short the
// text. A short piece, and what others have in common with it, stays.
func TestDiscreetInPieces(t *testing.T) {
	long := "0123456789abcdef" + letters(2486)
	used := Credential{Username: "AWS", Password: long}
	body := base64.StdEncoding.EncodeToString([]byte(`{"username":"AWS","password":"` + long + `"}`))
	inLines := func(size int, end string) string {
		return strings.Join(regexp.MustCompile(fmt.Sprintf(".{1,%d}", size)).FindAllString(body, -1), end)
	}
	for text, want := range map[string]string{
		"cut: " + long[:200]:                                       "cut: " + hidden,
		"the end of " + long[90:] + ", ok":                         "the end of " + hidden + ", ok",
		"the end of …" + long[2300:] + " is wrong":                 "the end of …" + hidden + " is wrong",
		"the middle: " + long[1000:1200]:                           "the middle: " + hidden,
		"the middle: " + body[1001:1200]:                           "the middle: " + hidden,
		"cut: " + body[:200]:                                       "cut: " + hidden,
		"sent " + inLines(76, "\n") + ".":                          "sent " + hidden + "=.",
		"sent " + inLines(64, "\r\n"):                              "sent " + hidden + "=",
		"sent " + inLines(20, `\n`):                                "sent " + hidden + "=",
		"cut: " + long[:20]:                                        "cut: " + long[:20],
		"r.io/app@sha256:" + strings.Repeat("0123456789abcdef", 4): "r.io/app@sha256:" + strings.Repeat("0123456789abcdef", 4),
	} {
		if got := Discreet(text, used); got != want {
			t.Errorf("%s\nbecomes %s\nwant    %s", text, got, want)
		}
	}
}

// TestDiscreetIsBounded: of a text that is too long the rest is not told, nor half of a word.
func TestDiscreetIsBounded(t *testing.T) {
	const length = 4 << 20
	fits := strings.Repeat("refused ", longestText/8)
	for name, c := range map[string]struct{ text, want string }{
		"one word":              {letters(length), hidden},
		"words":                 {strings.Repeat("refused ", length/8), fits + hidden},
		"an address at its end": {fits[:len(fits)-8] + "https://ann:" + letters(length) + "@r.io", fits[:len(fits)-8] + hidden},
		"as much as is told":    {letters(longestText), letters(longestText)},
	} {
		if got := Discreet(c.text); got != c.want {
			t.Errorf("%s: %d bytes become %d, not %d", name, len(c.text), len(got), len(c.want))
		}
	}
}

// Whatever a text is made of, no credential that was used is left in it, in whichever form it was written. The mark itself is no part of the text.
func FuzzDiscreet(f *testing.F) {
	f.Add("", "47-11", "")
	f.Add("https://ann:", "p/a?s@w+r", "@r.io")
	f.Add("Bearer ", "0123456", "-of-ann")
	f.Add("token=", "pass", "word")
	f.Add(`"`, `pa"ss\word<1`, `"`)
	f.Add("a body: ", key, "")
	f.Add(`x%\`, "ab/c+d='e", "%")
	f.Add("Basic ", "hidden]\x00\xff", ", 1")
	f.Fuzz(func(t *testing.T, before, secret, after string) {
		if len(secret) < shortestSecret {
			t.Skip()
		}
		var text strings.Builder
		forms := asWritten(secret)
		for _, name := range slices.Sorted(maps.Keys(forms)) {
			text.WriteString(before + forms[name] + after + "\n")
		}
		got := Discreet(text.String(), Credential{Username: "ann", Password: secret})
		for told := range strings.SplitSeq(got, hidden) {
			for name, form := range forms {
				if strings.Contains(told, form) {
					t.Errorf("%s: %q is left in %q", name, form, got)
				}
			}
		}
	})
}
