vcl 4.1;
import std;
backend default none;
sub vcl_recv { return (synth(200, "OK")); }
sub vcl_synth {
	if (req.url == "/large") { set resp.body = std.fileread("/usr/share/common-licenses/Apache-2.0"); }
	else { set resp.body = "ok"; }
	return (deliver);
}
