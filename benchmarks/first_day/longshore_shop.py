# ruff: noqa
# mypy: ignore-errors
from longshore import handler


@handler("page")
async def page(url: str, kit):
    page = await kit.http.get(url)
    if page.css_first("#login"):
        form = page.form("#login", {"user": "ann", "password": "rope-and-oak"})
        await kit.http.post(form.url, data=form.data)
        page = await kit.http.get(url)
    for product in page.json_ld("Product"):
        kit.emit({"sku": product["sku"], "name": product["name"], "price": product["offers"]["price"]})
    return page.follow()
