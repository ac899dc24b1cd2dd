// SPDX-License-Identifier: GPL-2.0-or-later
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.handler.ResourceHandler;

class Jetty {
	public static void main(String[] arguments) throws Exception {
		var server = new Server(Integer.parseInt(arguments[0]));
		var files = new ResourceHandler();
		files.setResourceBase(arguments[1]);
		server.setHandler(files);
		server.start();
	}
}
