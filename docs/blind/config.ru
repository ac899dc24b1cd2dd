run ->(_env) { [200, { "Content-Type" => "text/plain" }, ["hello"]] }
