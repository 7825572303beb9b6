package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// listening is the real program serving HTTP.
type listening struct {
	*served
	url string
}

// startHTTP starts the program with HTTP on a free port.
func (s *served) startHTTP(args ...string) *listening {
	s.t.Helper()
	return s.startAt("127.0.0.1:0", args...)
}

// startAt starts the program with HTTP at the address.
func (s *served) startAt(address string, args ...string) *listening {
	s.t.Helper()
	s.cmd = s.program(append([]string{"serve", "--http", address}, args...)...)
	s.cmd.Env = append(s.cmd.Env, "METRICS_PORT=0")
	s.cmd.Stderr = &s.stderr
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	l := &listening{served: s}
	s.t.Cleanup(func() { _ = l.stop() })
	l.announced()
	return l
}

// announced waits for the address that the program says it listens at.
func (l *listening) announced() {
	l.t.Helper()
	l.logs("kairos: MCP at ", 1)
	l.url = regexp.MustCompile(`MCP at (http://[^/]+)/mcp`).FindStringSubmatch(l.stderr.String())[1]
}

// stop sends SIGTERM and waits for the program.
func (l *listening) stop() error {
	_ = l.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	if l.cmd.ProcessState != nil {
		return nil
	}
	return l.cmd.Wait()
}

func (l *listening) request(method, path, media, body string) (status int, reply map[string]any) {
	l.t.Helper()
	req, err := http.NewRequestWithContext(l.t.Context(), method, l.url+path, strings.NewReader(body))
	if err != nil {
		l.t.Fatal(err)
	}
	req.Header.Set("Content-Type", media)
	req.Header.Set("Accept", "application/json, text/event-stream")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		l.t.Fatalf("%v\n%s", err, l.stderr.String())
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		l.t.Fatal(err)
	}
	if err := json.Unmarshal(b, &reply); err != nil {
		l.t.Fatalf("%s %s = %d %q\n%s", method, path, res.StatusCode, b, l.stderr.String())
	}
	return res.StatusCode, reply
}

func (l *listening) rest(tool string, args map[string]any) map[string]any {
	l.t.Helper()
	body, err := json.Marshal(args)
	if err != nil {
		l.t.Fatal(err)
	}
	status, reply := l.request("POST", "/api/"+tool, "application/json", string(body))
	if status != 200 {
		l.t.Fatalf("%s = %d %v\n%s", tool, status, reply, l.stderr.String())
	}
	return reply
}

func TestARunOverRESTAndACallInFlightAtTheEnd(t *testing.T) {
	t.Parallel()
	s := newServed(t)
	s.lock()
	l := s.startHTTP()
	if status, health := l.request("GET", "/health", "", ""); status != 200 || health["status"] != "healthy" {
		t.Fatalf("health = %d %v", status, health)
	}
	if status, ready := l.request("GET", "/readyz", "", ""); status != 200 {
		t.Errorf("readyz = %d %v", status, ready)
	}
	if status, minted := l.request("POST", "/api/kairos_mint/raw?llm_model_id=test", "text/markdown", oneCommand); status != 200 {
		t.Fatalf("mint = %d %v", status, minted)
	}
	choice := l.rest("kairos_search", map[string]any{"query": "one"})["choices"].([]any)[0].(map[string]any)
	uri := choice["uri"].(string)
	challenge := l.rest("kairos_begin", map[string]any{"uri": uri})["challenge"].(map[string]any)
	l.rest("kairos_next", map[string]any{"uri": uri, "solution": map[string]any{
		"type": "shell", "nonce": challenge["nonce"], "proof_hash": challenge["proof_hash"], "shell": map[string]any{"exit_code": 0},
	}})
	if a := l.rest("kairos_attest", map[string]any{"uri": uri, "outcome": "success", "message": "done"}); a["verified"] != true {
		t.Errorf("attest: %v\n%s", a, l.stderr.String())
	}
	_, listed := l.request("POST", "/mcp", "application/json", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	if result, _ := listed["result"].(map[string]any); len(result["tools"].([]any)) != 9 {
		t.Errorf("tools over MCP: %v", listed)
	}
	for format, want := range map[string]string{"text": fmt.Sprintf("%d  127.0.0.1:", l.cmd.Process.Pid), "json": fmt.Sprintf(`"pid": %d`, l.cmd.Process.Pid)} {
		if out, err := s.program("status", "-o", format).Output(); err != nil || !strings.Contains(string(out), want) || format == "text" && !strings.Contains(string(out), "ready, 2 drivers") {
			t.Errorf("status -o %s = %s, %v, want %q", format, out, err, want)
		}
	}
	l.endsInTheMiddle(uri)
	if out, err := s.program("status").Output(); err != nil || !strings.Contains(string(out), "no server uses ") {
		t.Errorf("status without a server = %s, %v", out, err)
	}
}

// A server that has lost its database file must not take runs that nobody finds again.
func TestReadinessNamesADatabaseThatIsGone(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("an open file cannot be moved here")
	}
	s := newServed(t)
	s.lock()
	l := s.startHTTP()
	if status, minted := l.request("POST", "/api/kairos_mint/raw?llm_model_id=test", "text/markdown", oneCommand); status != 200 {
		t.Fatalf("mint = %d %v", status, minted)
	}
	path := s.path("data/kairos.db")
	if err := os.Rename(path, path+".moved"); err != nil {
		t.Fatal(err)
	}
	status, refused := l.request("POST", "/api/kairos_mint/raw?llm_model_id=test", "text/markdown", strings.Replace(oneCommand, "# ", "# Another ", 1))
	if text := fmt.Sprint(refused); status != 503 || !strings.Contains(text, "STORE_UNAVAILABLE") || !strings.Contains(text, "restore it from a backup") {
		t.Errorf("mint = %d %v, want 503, the code and what to do", status, refused)
	}
	for path, at := range map[string][]string{"/readyz": {"reason"}, "/health": {"details", "store"}} {
		status, reply := l.request("GET", path, "", "")
		// An answer is kept for a moment.
		for end := time.Now().Add(time.Minute); status == 200 && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			status, reply = l.request("GET", path, "", "")
		}
		got := any(reply)
		for _, key := range at {
			got = got.(map[string]any)[key]
		}
		if text, _ := got.(string); status != 503 || !strings.Contains(text, "kairos.db was deleted or moved while it was in use") {
			t.Errorf("%s = %d %v, want 503 and the file", path, status, reply)
		}
	}
}

// A Qdrant that hangs takes connections and answers nothing. The database serves
// every call without it, and /health names it, within its time.
func TestHealthNamesAQdrantThatHangs(t *testing.T) {
	t.Parallel()
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	s := newServed(t)
	s.lock()
	s.configure("qdrant: {url: 'http://" + mute.Addr().String() + "'}\n")
	l := s.startHTTP()
	if status, reply := l.request("GET", "/readyz", "", ""); status != 200 {
		t.Errorf("/readyz = %d %v, want 200", status, reply)
	}
	status, reply := l.request("GET", "/health", "", "")
	details, _ := reply["details"].(map[string]any)
	if text, _ := details["qdrant"].(string); status != 200 || reply["status"] != "degraded" || !strings.Contains(text, "Qdrant at "+mute.Addr().String()+" did not answer in time") {
		t.Errorf("/health = %d %v, want 200, degraded and the reason", status, reply)
	}
	if status, reply := l.request("POST", "/api/kairos_search", "application/json", `{"query":"anything"}`); status != 200 {
		t.Errorf("kairos_search = %d %v, want 200", status, reply)
	}
}

// endsInTheMiddle sends SIGTERM while a call is half sent, and expects its reply.
func (l *listening) endsInTheMiddle(uri string) {
	l.t.Helper()
	address := strings.TrimPrefix(l.url, "http://")
	conn, err := net.Dial("tcp", address)
	if err != nil {
		l.t.Fatal(err)
	}
	defer conn.Close()
	body := fmt.Sprintf(`{"uri":%q}`, uri)
	fmt.Fprintf(conn, "POST /api/kairos_dump HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", len(body))
	interim := make([]byte, len("HTTP/1.1 100 Continue\r\n\r\n"))
	if _, err := io.ReadFull(conn, interim); err != nil { // so the server reads the body now
		l.t.Fatal(err)
	}
	if err := l.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		l.t.Fatal(err)
	}
	deadline := time.Now().Add(time.Minute)
	for {
		other, err := net.Dial("tcp", address)
		if err != nil {
			break // no more connections are taken
		}
		other.Close()
		if time.Now().After(deadline) {
			l.t.Fatal("the port stays open after SIGTERM")
		}
		time.Sleep(5 * time.Millisecond) // polling with a deadline
	}
	fmt.Fprint(conn, body)
	reply, err := io.ReadAll(conn)
	if err != nil || !bytes.HasPrefix(reply, []byte("HTTP/1.1 200 ")) || !bytes.Contains(reply, []byte("run it")) {
		l.t.Errorf("the call in flight: %q %v\n%s", reply, err, l.stderr.String())
	}
	if err := l.cmd.Wait(); err != nil {
		l.t.Errorf("the server ended with %v\n%s", err, l.stderr.String())
	}
}

func TestHTTPAndStdioAtOnce(t *testing.T) {
	s := newServed(t)
	s.lock()
	s.start("--http=127.0.0.1:0", "--stdio")
	l := &listening{served: s}
	l.announced()
	s.solve(func() {}) // over stdio, seen over HTTP
	if _, found := l.request("POST", "/api/kairos_search", "application/json", `{"query":"one"}`); len(found["choices"].([]any)) != 3 {
		t.Errorf("search over HTTP: %v", found)
	}
}

func TestWhatMayNotBeListenedOnIsRefused(t *testing.T) {
	s := newServed(t)
	s.lock()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, port, _ := net.SplitHostPort(taken.Addr().String())
	s.write("open.yaml", "drivers: {dir: "+s.dir+"}\ntree: "+s.path("tree.yaml")+"\nmetrics: {listen: '0.0.0.0:0'}\n")
	for name, tc := range map[string]struct {
		args []string
		env  string
		want string
	}{
		"other machines":       {[]string{"--http", "0.0.0.0:0"}, "", "--insecure"},
		"a name of the net":    {[]string{"--http", "kairos.example:3300"}, "", "--insecure"},
		"metrics for others":   {[]string{"--http", "127.0.0.1:0", "--config", s.path("open.yaml")}, "", "--insecure"},
		"dev and insecure":     {[]string{"--http", "0.0.0.0:0", "--insecure", "--dev"}, "", "--dev is refused"},
		"no address":           {[]string{"--http", "3300"}, "", "host:port"},
		"an address alone":     {[]string{"127.0.0.1:0"}, "", "--http"},
		"a taken port":         {[]string{"--http", taken.Addr().String()}, "", "port " + port + " of 127.0.0.1 is taken"},
		"a taken port in PORT": {[]string{"--http"}, "PORT=" + port, "port " + port + " of 127.0.0.1 is taken"},
		"no port in PORT":      {[]string{"--http"}, "PORT=many", "PORT"},
		"another app space":    {[]string{"--http"}, "KAIROS_APP_SPACE_ID=space:mine", "space:kairos-app"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := s.program(append([]string{"serve"}, tc.args...)...)
			if name != "metrics for others" {
				cmd.Env = append(cmd.Env, "METRICS_PORT=0")
			}
			cmd.Env = append(cmd.Env, tc.env)
			if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), tc.want) {
				t.Errorf("serve %v: %v\n%s", tc.args, err, out)
			}
		})
	}
}

func TestInsecureIsLoud(t *testing.T) {
	s := newServed(t)
	s.lock()
	s.cmd = s.program("serve", "--http", "0.0.0.0:0", "--insecure")
	s.cmd.Env = append(s.cmd.Env, "METRICS_PORT=0")
	s.cmd.Stderr = &s.stderr
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	l := &listening{served: s}
	t.Cleanup(func() { _ = l.stop() })
	s.logs("INSECURE", 1)
	s.logs("kairos: MCP at ", 1)
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(restURL.FindStringSubmatch(s.stderr.String())[1], "http://"))
	for path, want := range map[string]int{"/api/kairos_spaces": http.StatusOK, "/api/runs_list": http.StatusNotFound} {
		res, err := http.Post("http://127.0.0.1:"+port+path, "application/json", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("%s = %d, want %d: others read no runs unless http.operations says so", path, res.StatusCode, want)
		}
	}
	if err := l.stop(); err != nil {
		t.Errorf("SIGTERM: %v\n%s", err, s.stderr.String())
	}
}
