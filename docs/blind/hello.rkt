#lang racket/base
(require web-server/servlet web-server/servlet-env)
(serve/servlet (lambda (_request) (response/full 200 #"OK" 0 #"text/plain" '() '(#"hello")))
               #:port 7950 #:listen-ip "127.0.0.1" #:servlet-regexp #rx"" #:command-line? #t)
