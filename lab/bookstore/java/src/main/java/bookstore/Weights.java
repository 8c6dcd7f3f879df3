package bookstore;

import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Weights of books, which the stock knows. Two threads request them, so that few connections are open. */
final class Weights {
    private static final Duration CALL_TIMEOUT = Duration.ofSeconds(2);
    private static final Pattern GRAMS = Pattern.compile("\"grams\":\\s*(\\d+)");
    private static final int THREADS = 2;

    private final URI stock;
    private final HttpClient http = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
    private final BlockingQueue<Question> questions = new ArrayBlockingQueue<>(100);

    Weights(URI stock) {
        this.stock = stock;
        for (int i = 0; i < THREADS; i++) {
            Thread thread = new Thread(this::answerQuestions, "weights-" + i);
            thread.setDaemon(true);
            thread.start();
        }
    }

    private static final class Question {
        final String book;
        final BlockingQueue<Integer> answer = new ArrayBlockingQueue<>(1);

        Question(String book) {
            this.book = book;
        }
    }

    /** The weight in grams; 0 if it is not known. */
    int grams(String book) throws InterruptedException {
        Question question = new Question(book);
        questions.put(question);
        Integer grams = question.answer.poll(CALL_TIMEOUT.toMillis(), TimeUnit.MILLISECONDS);
        return grams == null ? 0 : grams;
    }

    private void answerQuestions() {
        try {
            while (true) {
                Question question = questions.take();
                question.answer.add(request(question.book));
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private int request(String book) throws InterruptedException {
        HttpRequest request = HttpRequest.newBuilder(stock.resolve("/levels/" + book)).timeout(CALL_TIMEOUT).build();
        try {
            Matcher grams = GRAMS.matcher(http.send(request, HttpResponse.BodyHandlers.ofString()).body());
            return grams.find() ? Integer.parseInt(grams.group(1)) : 0;
        } catch (IOException e) {
            System.err.println("delivery: no weight: " + e);
            return 0;
        }
    }
}
