//! Whether the orders of the shop add up.

use fabricmark_record::Audit;

use super::{Database, Sql, fetch, sql};

/// Checks all orders that were confirmed since the shop was loaded, and the stock.
pub async fn audit(database: &Database) -> Result<Audit, sqlx::Error> {
    let count = sql!("SELECT COUNT(*) FROM orders WHERE confirmation IS NOT NULL");
    let orders = number(database, count).await?;
    let mut inconsistencies = Vec::new();
    let checks = [
        (
            "have no line",
            sql!(
                "SELECT COUNT(*) FROM orders o WHERE confirmation IS NOT NULL \
                  AND NOT EXISTS (SELECT 1 FROM order_line l WHERE l.orders = o.id)"
            ),
        ),
        (
            "have a sum that is not that of their lines",
            sql!(
                "SELECT COUNT(*) FROM (SELECT o.id FROM orders o JOIN order_line l ON l.orders = o.id \
                  WHERE o.confirmation IS NOT NULL GROUP BY o.id, o.sub_total_cents \
                  HAVING SUM(l.price_cents * l.quantity) <> o.sub_total_cents) AS wrong"
            ),
        ),
        (
            "have a total that is not sum, tax and shipping",
            // Shipping costs $3 and $1 for each copy (`fabricmark_bookstore::shipping_cents`).
            sql!(
                "SELECT COUNT(*) FROM (SELECT o.id FROM orders o JOIN order_line l ON l.orders = o.id \
                  WHERE o.confirmation IS NOT NULL GROUP BY o.id, o.sub_total_cents, o.tax_cents, o.total_cents \
                  HAVING o.sub_total_cents + o.tax_cents + 300 + 100 * SUM(l.quantity) <> o.total_cents) AS wrong"
            ),
        ),
        (
            "are not paid, or not in full",
            sql!(
                "SELECT COUNT(*) FROM orders o WHERE confirmation IS NOT NULL AND NOT EXISTS \
                  (SELECT 1 FROM payment p WHERE p.orders = o.id AND p.amount_cents = o.total_cents)"
            ),
        ),
        (
            "left their books in the cart",
            sql!("SELECT COUNT(*) FROM orders o JOIN cart_line l ON l.cart = o.confirmation"),
        ),
    ];
    for (what, check) in checks {
        let wrong = number(database, check).await?;
        if wrong > 0 {
            inconsistencies.push(format!("{wrong} orders {what}"));
        }
    }
    let negative = number(database, sql!("SELECT COUNT(*) FROM item WHERE stock < 0")).await?;
    if negative > 0 {
        inconsistencies.push(format!("{negative} books have a stock below 0"));
    }
    Ok(Audit { orders: orders.unsigned_abs(), inconsistencies })
}

/// The only number of a statement's only row.
async fn number(database: &Database, sql: Sql) -> Result<i64, sqlx::Error> {
    let rows = fetch!(Database, *database, (i64,), sql).await?;
    Ok(rows.first().map_or(0, |row| row.0))
}
