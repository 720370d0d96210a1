// Orders and the messages about them, in one transaction each, with plain JDBC and MariaDB's driver, which speaks to
// MySQL too.
//
//   mvn dependency:copy-dependencies -DoutputDirectory=lib
//   DATABASE_URL=mysql://shop:secret@127.0.0.1:3306/shop java -cp 'lib/*' Orders.java 400
//
// The number is the first order's. `postrider migrate --store "$DATABASE_URL"` made the outbox, and schema.sql the
// table of orders.

import java.net.URI;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.sql.CallableStatement;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.sql.Types;

public class Orders {
    record Order(long id, String customer, String item) {
        String json() {
            return "{\"id\": %d, \"customer\": \"%s\", \"item\": \"%s\"}".formatted(id, customer, item);
        }
    }

    /** Writes the order and its message: both are committed, or neither. The message's id is returned. */
    static String place(Connection connection, Order order) throws SQLException {
        connection.setAutoCommit(false);
        try (PreparedStatement insert =
                        connection.prepareStatement("insert into orders (id, customer, item) values (?, ?, ?)");
                CallableStatement enqueue =
                        connection.prepareCall("call postrider_enqueue(?, ?, ?, ?, ?, ?, ?, ?, ?)")) {
            insert.setLong(1, order.id());
            insert.setString(2, order.customer());
            insert.setString(3, order.item());
            insert.executeUpdate();
            enqueue.setString(1, "orders.placed");
            enqueue.setString(2, order.customer()); // the key: the messages of a customer keep their order
            enqueue.setBytes(3, order.json().getBytes(StandardCharsets.UTF_8));
            enqueue.setString(4, "{\"correlation-id\": \"%d\"}".formatted(order.id())); // headers
            enqueue.setString(5, "application/json");
            enqueue.setNull(6, Types.VARCHAR); // attributes, of one broker alone
            enqueue.setNull(7, Types.BIGINT); // deliver_at
            enqueue.setNull(8, Types.BIGINT); // expires_at
            enqueue.setNull(9, Types.VARCHAR); // a UUID of yours, or null
            enqueue.registerOutParameter(9, Types.VARCHAR);
            enqueue.execute();
            String id = enqueue.getString(9);
            connection.commit();
            return id;
        } catch (SQLException | RuntimeException failure) {
            connection.rollback();
            throw failure;
        }
    }

    static Connection connect(String url) throws SQLException {
        URI place = URI.create(url);
        String[] login = place.getRawUserInfo().split(":", 2);
        int port = place.getPort() < 0 ? 3306 : place.getPort();
        // A MySQL that has not met the user since it started gives out the key that the password is to be encrypted with.
        // Over a network say sslMode=verify-full instead.
        String address = "jdbc:mariadb://%s:%d%s?allowPublicKeyRetrieval=true".formatted(place.getHost(), port, place.getPath());
        return DriverManager.getConnection(address, plain(login[0]), plain(login[1]));
    }

    static String plain(String part) {
        return URLDecoder.decode(part.replace("+", "%2B"), StandardCharsets.UTF_8);
    }

    public static void main(String[] arguments) throws SQLException {
        long id = Long.parseLong(arguments[0]);
        try (Connection connection = connect(System.getenv("DATABASE_URL"))) {
            for (String customer : new String[] {"ann-java", "bob-java", "ann-java"}) {
                place(connection, new Order(id++, customer, "T\u00fcr"));
            }
        }
    }
}
