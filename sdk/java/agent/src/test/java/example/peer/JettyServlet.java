package example.peer;

import javax.servlet.AsyncContext;
import javax.servlet.http.HttpServlet;
import javax.servlet.http.HttpServletRequest;
import javax.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.io.OutputStream;

/** Serves {@link HttpAnswer} with a servlet; {@code ?way=} writer, async, error, redirect. */
final class JettyServlet extends HttpServlet {
    private static final long serialVersionUID = 1;

    @Override
    protected void service(HttpServletRequest request, HttpServletResponse response) throws IOException {
        String way = request.getParameter("way") == null ? "" : request.getParameter("way");
        String body = new String(request.getInputStream().readAllBytes());
        if (way.equals("async")) {
            AsyncContext context = request.startAsync();
            Elsewhere.POOL.execute(() -> {
                try {
                    answer(request, (HttpServletResponse) context.getResponse(), way, body);
                } catch (IOException e) {
                    throw new IllegalStateException(e);
                } finally {
                    context.complete();
                }
            });
        } else {
            answer(request, response, way, body);
        }
    }

    private static void answer(HttpServletRequest request, HttpServletResponse response, String way, String body) throws IOException {
        HttpAnswer answer = HttpAnswer.to(request.getRequestURI(), body);
        answer.headers.forEach(response::setHeader);
        if (way.equals("error")) {
            response.sendError(answer.status, "requested error");
            return;
        }
        if (way.equals("redirect")) {
            response.sendRedirect("/elsewhere");
            return;
        }
        response.setStatus(answer.status);
        if (!answer.chunked && answer.body.length > 0) {
            response.setContentLength(answer.body.length);
        }
        if (way.equals("writer")) {
            response.getWriter().print(new String(answer.body));
            return;
        }
        OutputStream out = response.getOutputStream();
        for (int at = 0; at < answer.body.length; at += 5000) {
            out.write(answer.body, at, Math.min(5000, answer.body.length - at));
            if (answer.flushes) {
                out.flush();
            }
        }
        if (!answer.after.isEmpty()) {
            Script.run(answer.after);
        }
    }
}
