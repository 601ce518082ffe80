"""The records of each register. A field that the register lacks, or has malformed, is None."""

from __future__ import annotations

from pydantic import BaseModel, Field

KIND = "price"
"""The kind of all records: `longshore export RUN --records price`."""

Text = str | None
Amount = float | None


class IndianPack(BaseModel):
    """A pack of a product, with its maximum retail price."""

    product: str
    brand: str = Field(min_length=1)
    composition: Text
    company: Text
    pack: str = Field(min_length=1)
    size: Text
    mrp: Amount
    ceiling: Amount
    updated: Text


class MalaysianPack(BaseModel):
    """A pack of a registered product."""

    registration: str = Field(min_length=1)
    name: str
    holder: Text
    prescription: bool
    pack: str
    wholesale: Amount
    retail: Amount


class DutchPack(BaseModel):
    """A drug pack by its number."""

    zi_number: str = Field(min_length=8, max_length=8)
    name: str
    atc: Text
    form: Text
    quantity: Amount
    price: Amount
    own_payment: Amount


class TaiwanesePrice(BaseModel):
    """The price of a drug code from one day to another; `valid_to` is None for the present one."""

    code: str = Field(min_length=1)
    name: str
    name_english: Text
    maker: Text
    price: Amount
    valid_from: str
    valid_to: Text


class RussianPack(BaseModel):
    """A pack of a medicine, with its registered price."""

    medicine: str = Field(min_length=1)
    name: str
    inn: Text
    holder: Text
    barcode: str = Field(min_length=13, max_length=13)
    form: Text
    price: Amount
    decided: Text


class ArgentinePresentation(BaseModel):
    """A presentation of a product."""

    product: int
    name: str
    laboratory: str
    drug: Text
    presentation: str
    price: Amount
    valid_from: Text


class QuebecListing(BaseModel):
    """A row of a list."""

    list: str
    generic: str
    din: str = Field(min_length=8, max_length=8)
    brand: str
    maker: Text
    format: Text
    cost: Amount
    unit_price: Amount
