:- use_module(library(http/thread_httpd)).
:- use_module(library(http/http_dispatch)).
:- http_handler(root(.), hello, []).
hello(_) :- format('Content-type: text/plain~n~nhello~n').
:- initialization((http_server(http_dispatch, [port('127.0.0.1':7950), workers(4)]),
                   thread_get_message(stop))).
