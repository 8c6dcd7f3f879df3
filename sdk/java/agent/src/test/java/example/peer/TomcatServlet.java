package example.peer;

import jakarta.servlet.AsyncContext;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.io.OutputStream;

/** Serves {@link HttpReply} with a servlet; {@code ?way=} writer, async, error, redirect. */
final class TomcatServlet extends HttpServlet {
    private static final long serialVersionUID = 1;

    @Override
    protected void service(HttpServletRequest request, HttpServletResponse response) throws IOException {
        String way = request.getParameter("way") == null ? "" : request.getParameter("way");
        String body = new String(request.getInputStream().readAllBytes());
        if (way.equals("async")) {
            AsyncContext context = request.startAsync();
            Elsewhere.POOL.execute(() -> {
                try {
                    reply(request, (HttpServletResponse) context.getResponse(), way, body);
                } catch (IOException e) {
                    throw new IllegalStateException(e);
                } finally {
                    context.complete();
                }
            });
        } else {
            reply(request, response, way, body);
        }
    }

    private static void reply(HttpServletRequest request, HttpServletResponse response, String way, String body) throws IOException {
        HttpReply reply = HttpReply.to(request.getRequestURI(), body);
        reply.headers.forEach(response::setHeader);
        if (way.equals("error")) {
            response.sendError(reply.status, "requested error");
            return;
        }
        if (way.equals("redirect")) {
            response.sendRedirect("/elsewhere");
            return;
        }
        response.setStatus(reply.status);
        if (!reply.chunked && reply.body.length > 0) {
            response.setContentLength(reply.body.length);
        }
        if (way.equals("writer")) {
            response.getWriter().print(new String(reply.body));
            return;
        }
        OutputStream out = response.getOutputStream();
        for (int at = 0; at < reply.body.length; at += 5000) {
            out.write(reply.body, at, Math.min(5000, reply.body.length - at));
            if (reply.flushes) {
                out.flush();
            }
        }
        if (!reply.after.isEmpty()) {
            Script.run(reply.after);
        }
    }
}
